SELECT d.year_month AS month, u.cost_center, u.department, find_in_set('cost_center', u.tagged) > 0 AS is_tagged,
  sum(u.list_cost) AS list_cost
FROM usage u JOIN dates d ON d.date_sk = u.date_sk
GROUP BY d.year_month, u.cost_center, u.department, find_in_set('cost_center', u.tagged) > 0
