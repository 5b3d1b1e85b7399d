SELECT j.workspace_id, 'JOB' AS entity_type, j.job_id AS entity_id, j.name, j.run_as, j.delete_time
FROM jobs j WHERE j.is_current
UNION ALL
SELECT p.workspace_id, 'PIPELINE' AS entity_type, p.pipeline_id AS entity_id, p.name, p.run_as, p.delete_time
FROM pipelines p WHERE p.is_current
