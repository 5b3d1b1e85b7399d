-- The histories of jobs and pipelines in one. A row is told by what it is and since when.
SELECT concat_ws('/', 'JOB', j.workspace_id, j.job_id, unix_micros(j.valid_from)) AS entity_sk,
  j.workspace_id, 'JOB' AS entity_type, j.job_id AS entity_id, j.name, j.run_as, j.tags, j.delete_time,
  j.valid_from, j.valid_to, j.is_current
FROM jobs j
UNION ALL
SELECT concat_ws('/', 'PIPELINE', p.workspace_id, p.pipeline_id, unix_micros(p.valid_from)) AS entity_sk,
  p.workspace_id, 'PIPELINE' AS entity_type, p.pipeline_id AS entity_id, p.name, p.run_as, p.tags, p.delete_time,
  p.valid_from, p.valid_to, p.is_current
FROM pipelines p
