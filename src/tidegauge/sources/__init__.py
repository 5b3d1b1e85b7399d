"""Where rows come from: databases (`<engine>/`, all in the table `engines`), Delta tables (`delta/`), and the
safe bounds, cuts and rows of a window. Knows storage, delta_log and model.
"""
