SELECT date_sk, list_cost,
  CAST(avg(list_cost) OVER (ORDER BY date_sk ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS DECIMAL(18, 2)) AS week_average,
  sum(list_cost) OVER (ORDER BY date_sk) AS running_total
FROM (SELECT date_sk, sum(list_cost) AS list_cost FROM usage GROUP BY date_sk)
