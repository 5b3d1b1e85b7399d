SELECT workspace_id, workspace_name, workspace_url, cloud, status, create_time
FROM workspaces
