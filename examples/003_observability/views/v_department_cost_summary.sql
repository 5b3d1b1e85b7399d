SELECT d.year_month AS month, u.department, find_in_set('department', u.tagged) > 0 AS is_tagged,
  count(DISTINCT u.workspace_id, u.entity_type, u.entity_id) AS entities, sum(u.records) AS records,
  sum(u.list_cost) AS list_cost
FROM usage u JOIN dates d ON d.date_sk = u.date_sk
GROUP BY d.year_month, u.department, find_in_set('department', u.tagged) > 0
