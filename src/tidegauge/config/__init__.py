"""The project file `tidegauge.yml`, found, parsed and checked; errors name file, line and column.
May use model, declare, user_modules and errors; knows neither the ledger nor Spark.
"""
