SELECT usage_id, workspace_id, CAST(used_at AS DATE) AS day, units
FROM usage
WHERE units > 0
