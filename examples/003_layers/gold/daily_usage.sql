SELECT day, workspace_id, sum(units) AS units, count(*) AS readings
FROM usage
GROUP BY day, workspace_id
