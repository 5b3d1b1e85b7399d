SELECT u.date_sk, c.dbr_version, count(DISTINCT c.workspace_id, c.cluster_id) AS clusters, sum(u.list_cost) AS list_cost
FROM usage u JOIN clusters c ON c.cluster_sk = u.cluster_sk
GROUP BY u.date_sk, c.dbr_version
