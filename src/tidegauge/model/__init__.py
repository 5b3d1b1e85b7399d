"""The words of the product as frozen values: positions, specs, plans, and the promises between rooms."""
