"""Which flows the words of a command mean: patterns over catalogues, tables that have gone, the graph.
Used before any flow is opened."""
