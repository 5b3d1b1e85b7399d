"""Comparing two sets of rows, by key or as a whole, in Spark or without it.
Knows model alone: who compares brings the rows.
"""
