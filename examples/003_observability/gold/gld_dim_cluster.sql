SELECT concat_ws('/', workspace_id, cluster_id, unix_micros(valid_from)) AS cluster_sk, workspace_id, cluster_id,
  cluster_name, owned_by, driver_node_type, worker_node_type, worker_count, auto_termination_minutes, cluster_source,
  dbr_version, policy_id, tags, create_time, delete_time, valid_from, valid_to, is_current
FROM clusters
