SELECT date_sk, line_of_business, find_in_set('line_of_business', tagged) > 0 AS is_tagged, sum(records) AS records,
  sum(usage_quantity) AS usage_quantity, sum(list_cost) AS list_cost
FROM usage
GROUP BY date_sk, line_of_business, find_in_set('line_of_business', tagged) > 0
