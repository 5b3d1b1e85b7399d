-- How much of the records and of the cost carries each tag. A default is no tag.
SELECT t.tag, sum(u.records) AS records,
  sum(if(find_in_set(t.tag, u.tagged) > 0, u.records, 0)) AS tagged_records,
  CAST(sum(if(find_in_set(t.tag, u.tagged) > 0, u.records, 0)) / sum(u.records) AS DECIMAL(5, 4)) AS coverage,
  sum(if(find_in_set(t.tag, u.tagged) > 0, u.list_cost, 0)) AS tagged_cost, sum(u.list_cost) AS list_cost
FROM usage u
CROSS JOIN (
  SELECT explode(array('line_of_business', 'department', 'cost_center', 'environment', 'use_case', 'pipeline_name',
    'cluster_identifier', 'workflow_level', 'parent_workflow')) AS tag
) t
GROUP BY t.tag
