"""Find and parse `tidegauge.yml`: every error names file, line and column, and no secret is ever shown."""
