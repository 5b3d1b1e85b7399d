-- Five years without a gap, from the year in which the first workspace was made.
SELECT CAST(date_format(day, 'yyyyMMdd') AS INT) AS date_sk, day, year(day) AS year, quarter(day) AS quarter,
  month(day) AS month, date_format(day, 'yyyy-MM') AS year_month, weekday(day) + 1 AS day_of_week,
  weekday(day) >= 5 AS is_weekend
FROM (
  SELECT explode(sequence(first, first + INTERVAL 5 YEARS - INTERVAL 1 DAY)) AS day
  FROM (SELECT trunc(min(CAST(create_time AS DATE)), 'YEAR') AS first FROM workspaces)
)
