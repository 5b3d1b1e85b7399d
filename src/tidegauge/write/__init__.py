"""Rows into files of their own, and one manifest per batch that makes them exist."""
