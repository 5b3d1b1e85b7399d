SELECT node_type, core_count, memory_mb, gpu_count
FROM node_types
