SELECT date_sk, environment, find_in_set('environment', tagged) > 0 AS is_tagged, sum(records) AS records,
  sum(usage_quantity) AS usage_quantity, sum(list_cost) AS list_cost
FROM usage
GROUP BY date_sk, environment, find_in_set('environment', tagged) > 0
