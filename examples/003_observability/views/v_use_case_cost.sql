SELECT date_sk, use_case, find_in_set('use_case', tagged) > 0 AS is_tagged, sum(records) AS records,
  sum(usage_quantity) AS usage_quantity, sum(list_cost) AS list_cost
FROM usage
GROUP BY date_sk, use_case, find_in_set('use_case', tagged) > 0
