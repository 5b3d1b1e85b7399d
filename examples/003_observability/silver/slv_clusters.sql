SELECT workspace_id, cluster_id, cluster_name, owned_by, driver_node_type, worker_node_type, worker_count,
  min_autoscale_workers, max_autoscale_workers, auto_termination_minutes, cluster_source, dbr_version, policy_id,
  create_time, delete_time, change_time,
  to_json(map_from_entries(array_sort(map_entries(tags)))) AS tags
FROM clusters
