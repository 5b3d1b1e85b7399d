-- Every SKU that is priced or used; `is_priced` is false for those that health names.
SELECT s.cloud, s.sku_name, s.usage_unit, max(s.priced) AS is_priced
FROM (
  SELECT u.cloud, u.sku_name, u.usage_unit, false AS priced FROM usage u
  UNION ALL
  SELECT p.cloud, p.sku_name, p.usage_unit, true AS priced FROM prices p
) s
GROUP BY s.cloud, s.sku_name, s.usage_unit
