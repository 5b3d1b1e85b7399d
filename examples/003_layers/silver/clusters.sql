SELECT c.cluster_id, c.num_workers, c.change_time, w.name AS workspace
FROM clusters c LEFT JOIN workspaces w ON w.workspace_id = c.workspace_id
