-- Days on which a workspace's product cost more than half again as much as in the seven days before.
SELECT date_sk, workspace_id, entity_type, list_cost, CAST(before AS DECIMAL(18, 2)) AS week_average
FROM (
  SELECT date_sk, workspace_id, entity_type, list_cost,
    avg(list_cost) OVER (PARTITION BY workspace_id, entity_type ORDER BY date_sk ROWS BETWEEN 7 PRECEDING AND 1 PRECEDING)
      AS before
  FROM (
    SELECT date_sk, workspace_id, entity_type, sum(list_cost) AS list_cost
    FROM usage GROUP BY date_sk, workspace_id, entity_type
  )
)
WHERE list_cost > before * 1.5
