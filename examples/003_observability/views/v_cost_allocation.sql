-- The chargeback of a month, to the cent. A cost with a department's tag is direct; one with only a line of business is
-- shared; the rest is unallocated. Shared and unallocated cost goes to the departments in proportion to their direct
-- cost, and 10 % overhead is added to all. The month's total is rounded once; then every cent is given to somebody:
-- first to the three parts, then of each part to the departments, the cents that are left to the largest remainders.
-- So the sum over departments is the total × 1.10, whatever the shares are.
WITH costs AS (
  SELECT date_format(to_date(CAST(date_sk AS STRING), 'yyyyMMdd'), 'yyyy-MM') AS month, department,
    CASE WHEN find_in_set('department', tagged) > 0 THEN 'direct'
      WHEN find_in_set('line_of_business', tagged) > 0 THEN 'shared'
      ELSE 'unallocated' END AS part,
    list_cost
  FROM usage
),
parts AS (
  SELECT month, part, CAST(CAST(sum(list_cost) AS DECIMAL(22, 14)) * 100000000000000BD AS DECIMAL(22, 0)) AS units
  FROM costs GROUP BY month, part
),
totals AS (
  SELECT month, CAST(round(CAST(sum(list_cost) AS DECIMAL(22, 14)) * 110BD) AS DECIMAL(12, 0)) AS cents,
    CAST(CAST(sum(list_cost) AS DECIMAL(22, 14)) * 100000000000000BD AS DECIMAL(22, 0)) AS units
  FROM costs GROUP BY month HAVING sum(list_cost) <> 0
),
part_shares AS (
  SELECT p.month, p.part, t.cents, (t.cents * p.units) div t.units AS share, (t.cents * p.units) % t.units AS rest
  FROM parts p JOIN totals t ON t.month = p.month
),
part_cents AS (
  SELECT month, part,
    CAST(share + if(row_number() OVER (PARTITION BY month ORDER BY rest DESC, part)
      <= cents - sum(share) OVER (PARTITION BY month), 1, 0) AS DECIMAL(12, 0)) AS cents
  FROM part_shares
),
departments AS (
  SELECT month, department, CAST(CAST(sum(list_cost) AS DECIMAL(22, 14)) * 100000000000000BD AS DECIMAL(22, 0)) AS units
  FROM costs WHERE part = 'direct' GROUP BY month, department
  UNION ALL
  SELECT t.month, 'general', CAST(1 AS DECIMAL(22, 0)) FROM totals t
  LEFT ANTI JOIN parts p ON p.month = t.month AND p.part = 'direct'
),
weights AS (SELECT month, sum(units) AS units FROM departments GROUP BY month),
shares AS (
  SELECT d.month, d.department, p.part, p.cents,
    (p.cents * d.units) div CAST(w.units AS DECIMAL(24, 0)) AS share,
    (p.cents * d.units) % CAST(w.units AS DECIMAL(24, 0)) AS rest
  FROM departments d
  JOIN weights w ON w.month = d.month
  JOIN part_cents p ON p.month = d.month
),
cents AS (
  SELECT month, department, part,
    share + if(row_number() OVER (PARTITION BY month, part ORDER BY rest DESC, department)
      <= cents - sum(share) OVER (PARTITION BY month, part), 1, 0) AS cents
  FROM shares
)
SELECT month, department,
  CAST(sum(if(part = 'direct', cents, 0)) * 0.01BD AS DECIMAL(14, 2)) AS direct,
  CAST(sum(if(part = 'shared', cents, 0)) * 0.01BD AS DECIMAL(14, 2)) AS shared,
  CAST(sum(if(part = 'unallocated', cents, 0)) * 0.01BD AS DECIMAL(14, 2)) AS unallocated,
  CAST(sum(cents) * 0.01BD AS DECIMAL(14, 2)) AS chargeback
FROM cents
GROUP BY month, department
