-- A price holds until the next one of its cloud, SKU and unit begins: `valid_to` of the history.
SELECT cloud, sku_name, usage_unit, currency_code, price_start_time,
  CAST(coalesce(pricing.effective_list.default, pricing.default) AS DECIMAL(14, 6)) AS list_price
FROM prices
