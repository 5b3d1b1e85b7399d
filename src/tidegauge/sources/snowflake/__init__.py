"""All that is particular to reading Snowflake."""
