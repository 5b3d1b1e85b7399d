SELECT workspace_id, job_id, run_id, period_start_time, period_end_time, trigger_type, run_type, result_state,
  termination_code, get(compute_ids, 0) AS cluster_id,
  CAST(date_format(period_end_time, 'yyyyMMdd') AS INT) AS date_sk,
  unix_seconds(period_end_time) - unix_seconds(period_start_time) AS seconds
FROM runs
