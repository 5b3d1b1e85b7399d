SELECT r.result_state, coalesce(r.termination_code, 'NONE') AS termination_code,
  r.result_state = 'SUCCEEDED' AS is_success
FROM runs r
WHERE r.result_state IS NOT NULL
GROUP BY r.result_state, coalesce(r.termination_code, 'NONE')
