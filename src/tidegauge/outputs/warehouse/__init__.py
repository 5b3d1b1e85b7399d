"""One table's place in a warehouse: staging, one transaction for rows and tag, a folder for each engine."""
