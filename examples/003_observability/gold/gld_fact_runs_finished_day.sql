SELECT CAST(date_format(r.ended_at, 'yyyyMMdd') AS INT) AS date_sk, r.workspace_id, count(*) AS runs,
  count_if(r.result_state = 'SUCCEEDED') AS succeeded, count_if(r.result_state <> 'SUCCEEDED') AS not_succeeded,
  sum(r.seconds) AS seconds, max(r.seconds) AS longest_seconds,
  CAST(sum(r.list_cost) AS DECIMAL(38, 14)) AS list_cost
FROM runs r
WHERE r.result_state IS NOT NULL
GROUP BY CAST(date_format(r.ended_at, 'yyyyMMdd') AS INT), r.workspace_id
