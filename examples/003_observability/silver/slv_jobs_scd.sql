-- Tags as text, sorted: maps cannot be compared, and a change of a tag alone is a change.
SELECT workspace_id, job_id, name, creator_id, run_as, delete_time, change_time,
  to_json(map_from_entries(array_sort(map_entries(tags)))) AS tags
FROM jobs
