SELECT date_sk, cloud, sku_name, usage_quantity, list_cost,
  list_cost - lag(list_cost) OVER (PARTITION BY cloud, sku_name ORDER BY date_sk) AS change
FROM (
  SELECT date_sk, cloud, sku_name, sum(usage_quantity) AS usage_quantity, sum(list_cost) AS list_cost
  FROM usage GROUP BY date_sk, cloud, sku_name
)
