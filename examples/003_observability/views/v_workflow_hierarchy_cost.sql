SELECT date_sk, parent_workflow, workflow_level, pipeline_name, workspace_id, entity_type, entity_id,
  sum(list_cost) AS list_cost
FROM usage
WHERE entity_type IN ('JOB', 'PIPELINE')
GROUP BY date_sk, parent_workflow, workflow_level, pipeline_name, workspace_id, entity_type, entity_id
