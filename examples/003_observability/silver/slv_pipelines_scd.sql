SELECT workspace_id, pipeline_id, name, pipeline_type, created_by, run_as, delete_time, change_time,
  to_json(map_from_entries(array_sort(map_entries(tags)))) AS tags
FROM pipelines
