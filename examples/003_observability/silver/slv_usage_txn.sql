-- One row for each record, retractions with their negative quantity. A tag is found under any spelling of its name; of
-- several, the first by spelling. `tagged` names the columns that a tag has filled: a default is never one of them.
SELECT
  record_id, record_type, workspace_id, cloud, sku_name, usage_unit, billing_origin_product,
  CASE WHEN usage_metadata.job_id IS NOT NULL THEN 'JOB'
    WHEN usage_metadata.dlt_pipeline_id IS NOT NULL THEN 'PIPELINE'
    ELSE billing_origin_product END AS entity_type,
  coalesce(usage_metadata.job_id, usage_metadata.dlt_pipeline_id, 'NONE') AS entity_id,
  coalesce(usage_metadata.job_run_id, 'NONE') AS run_id,
  coalesce(usage_metadata.cluster_id, 'NONE') AS cluster_id,
  coalesce(usage_metadata.warehouse_id, 'NONE') AS warehouse_id,
  usage_start_time, usage_end_time,
  CAST(date_format(usage_date, 'yyyyMMdd') AS INT) AS date_sk,
  CAST(usage_quantity AS DECIMAL(20, 8)) AS usage_quantity,
  coalesce(project, 'Unknown') AS line_of_business,
  coalesce(sub_project, 'general') AS department,
  coalesce(cost_center, 'unallocated') AS cost_center,
  coalesce(known_environment, 'dev') AS environment,
  coalesce(data_product, 'Unknown') AS use_case,
  coalesce(job_pipeline, 'system') AS pipeline_name,
  coalesce(cluster_name, 'Unknown') AS cluster_identifier,
  coalesce(workflow_level, 'STANDALONE') AS workflow_level,
  coalesce(parent_workflow, 'none') AS parent_workflow,
  concat_ws(',',
    if(project IS NOT NULL, 'line_of_business', NULL),
    if(sub_project IS NOT NULL, 'department', NULL),
    if(cost_center IS NOT NULL, 'cost_center', NULL),
    if(known_environment IS NOT NULL, 'environment', NULL),
    if(data_product IS NOT NULL, 'use_case', NULL),
    if(job_pipeline IS NOT NULL, 'pipeline_name', NULL),
    if(cluster_name IS NOT NULL, 'cluster_identifier', NULL),
    if(workflow_level IS NOT NULL, 'workflow_level', NULL),
    if(parent_workflow IS NOT NULL, 'parent_workflow', NULL)) AS tagged,
  environment AS environment_tag
FROM (
  SELECT *,
    CASE
      WHEN lower(environment) IN ('prod', 'production', 'prd', 'live') THEN 'prod'
      WHEN lower(environment) IN ('stage', 'staging', 'stg') THEN 'stage'
      WHEN lower(environment) IN ('uat', 'qa', 'test') THEN 'uat'
      WHEN lower(environment) IN ('dev', 'development') THEN 'dev'
    END AS known_environment
  FROM (
    SELECT *,
      get(filter(tags, t -> t.name = 'project'), 0).value AS project,
      get(filter(tags, t -> t.name = 'subproject'), 0).value AS sub_project,
      get(filter(tags, t -> t.name = 'costcenter'), 0).value AS cost_center,
      get(filter(tags, t -> t.name = 'environment'), 0).value AS environment,
      get(filter(tags, t -> t.name = 'dataproduct'), 0).value AS data_product,
      get(filter(tags, t -> t.name = 'jobpipeline'), 0).value AS job_pipeline,
      get(filter(tags, t -> t.name = 'clustername'), 0).value AS cluster_name,
      get(filter(tags, t -> t.name = 'workflowlevel'), 0).value AS workflow_level,
      get(filter(tags, t -> t.name = 'parentworkflow'), 0).value AS parent_workflow
    FROM (
      SELECT *,
        array_sort(transform(filter(map_entries(custom_tags), e -> trim(e.value) <> ''), e ->
          named_struct('spelt', e.key, 'name', lower(regexp_replace(e.key, '[-_ ]', '')), 'value', trim(e.value)))) AS tags
      FROM usage
    )
  )
)
