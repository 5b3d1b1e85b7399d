"""All that is particular to Amazon Redshift as a warehouse."""
