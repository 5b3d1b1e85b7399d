"""One table's place in a warehouse: staging, one transaction for rows and tag, the words of each engine."""
