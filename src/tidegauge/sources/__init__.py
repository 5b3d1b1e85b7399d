"""Where rows come from: databases (`<engine>/`, all listed in `engines`), Delta tables (`delta/`), and the
safe bounds, cuts and rows of a window. Knows delta_log, spark, storage and model.
"""
