-- By workspace: records with all tags that a chargeback needs, with some, with none, and with an unknown environment.
SELECT workspace_id, count(*) AS records,
  count_if(find_in_set('department', tagged) > 0 AND find_in_set('cost_center', tagged) > 0
    AND find_in_set('environment', tagged) > 0) AS complete,
  count_if(tagged = '') AS untagged,
  count_if(environment_tag IS NOT NULL AND find_in_set('environment', tagged) = 0) AS unknown_environment
FROM records
GROUP BY workspace_id
