SELECT workspace_id, warehouse_id, warehouse_name, warehouse_type, warehouse_size, min_clusters, max_clusters,
  auto_stop_minutes, delete_time, change_time,
  to_json(map_from_entries(array_sort(map_entries(tags)))) AS tags
FROM warehouses
