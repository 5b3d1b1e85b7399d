SELECT f.date_sk, f.workspace_id, f.entity_type, f.entity_id, coalesce(l.name, f.entity_type) AS entity_name,
  sum(f.records) AS records,
  CAST(sum(f.usage_quantity) AS DECIMAL(30, 8)) AS usage_quantity,
  CAST(sum(f.list_cost) AS DECIMAL(38, 14)) AS list_cost
FROM usage f
LEFT JOIN latest l ON l.workspace_id = f.workspace_id AND l.entity_type = f.entity_type AND l.entity_id = f.entity_id
GROUP BY f.date_sk, f.workspace_id, f.entity_type, f.entity_id, coalesce(l.name, f.entity_type)
