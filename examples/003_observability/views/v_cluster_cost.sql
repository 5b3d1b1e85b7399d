-- By the cluster as it was when it was used.
SELECT u.date_sk, u.workspace_id, u.cluster_id, u.cluster_sk, c.cluster_name, c.owned_by, c.worker_count, c.cluster_source,
  sum(u.list_cost) AS list_cost
FROM usage u LEFT JOIN clusters c ON c.cluster_sk = u.cluster_sk
WHERE u.cluster_id <> 'NONE'
GROUP BY u.date_sk, u.workspace_id, u.cluster_id, u.cluster_sk, c.cluster_name, c.owned_by, c.worker_count,
  c.cluster_source
