-- Clusters as they are now: a policy, an automatic end, and the tag of a cost center.
SELECT workspace_id, cluster_id, cluster_name, policy_id IS NOT NULL AS has_policy,
  auto_termination_minutes > 0 OR cluster_source = 'JOB' AS ends_by_itself,
  lower(regexp_replace(tags, '[-_ ]', '')) LIKE '%"costcenter":%' AS has_cost_center,
  delete_time IS NOT NULL AS is_deleted
FROM clusters
WHERE is_current
