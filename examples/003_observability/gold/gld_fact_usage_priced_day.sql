-- A day's usage, priced. Price, cluster and entity are those that held when the usage began; a price by cloud, SKU and unit.
-- No rounding: quantity has 8 decimals, a price 6, their product 14.
SELECT u.date_sk, u.workspace_id, u.cloud, u.sku_name, u.usage_unit, u.entity_type, u.entity_id, u.run_id, u.cluster_id,
  u.warehouse_id, coalesce(e.entity_sk, 'NONE') AS entity_sk, coalesce(c.cluster_sk, 'NONE') AS cluster_sk,
  u.line_of_business, u.department, u.cost_center, u.environment, u.use_case, u.pipeline_name, u.cluster_identifier,
  u.workflow_level, u.parent_workflow, u.tagged,
  count(*) AS records,
  count_if(p.list_price IS NULL) AS unpriced_records,
  CAST(sum(u.usage_quantity) AS DECIMAL(30, 8)) AS usage_quantity,
  CAST(coalesce(sum(u.usage_quantity * p.list_price), 0) AS DECIMAL(38, 14)) AS list_cost
FROM usage u
LEFT JOIN prices p ON p.cloud = u.cloud AND p.sku_name = u.sku_name AND p.usage_unit = u.usage_unit
  AND u.usage_start_time >= p.valid_from AND (u.usage_start_time < p.valid_to OR p.valid_to IS NULL)
LEFT JOIN clusters c ON c.workspace_id = u.workspace_id AND c.cluster_id = u.cluster_id
  AND u.usage_start_time >= c.valid_from AND (u.usage_start_time < c.valid_to OR c.valid_to IS NULL)
LEFT JOIN entities e ON e.workspace_id = u.workspace_id AND e.entity_type = u.entity_type AND e.entity_id = u.entity_id
  AND u.usage_start_time >= e.valid_from AND (u.usage_start_time < e.valid_to OR e.valid_to IS NULL)
GROUP BY u.date_sk, u.workspace_id, u.cloud, u.sku_name, u.usage_unit, u.entity_type, u.entity_id, u.run_id, u.cluster_id,
  u.warehouse_id, coalesce(e.entity_sk, 'NONE'), coalesce(c.cluster_sk, 'NONE'), u.line_of_business, u.department,
  u.cost_center, u.environment, u.use_case, u.pipeline_name, u.cluster_identifier, u.workflow_level, u.parent_workflow,
  u.tagged
