"""Comparing two sets of rows, by key or as a whole, in Spark or without it.
Knows model alone: the caller brings the rows.
"""
