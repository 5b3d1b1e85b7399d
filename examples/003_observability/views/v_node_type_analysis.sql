SELECT c.worker_node_type AS node_type, n.core_count, n.memory_mb, count(DISTINCT c.workspace_id, c.cluster_id) AS clusters,
  sum(u.usage_quantity) AS usage_quantity, sum(u.list_cost) AS list_cost
FROM usage u
JOIN clusters c ON c.cluster_sk = u.cluster_sk
LEFT JOIN node_types n ON n.node_type = c.worker_node_type
GROUP BY c.worker_node_type, n.core_count, n.memory_mb
