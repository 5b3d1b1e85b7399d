"""The only room that sees every other: it walks plans, many flows at once."""
