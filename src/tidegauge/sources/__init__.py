"""Where rows come from: what is there, how far it is safe to read, and the rows of a window.
Knows storage, delta and model.
"""
