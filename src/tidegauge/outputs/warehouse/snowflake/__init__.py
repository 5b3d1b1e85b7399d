"""All that is particular to Snowflake as a warehouse."""
