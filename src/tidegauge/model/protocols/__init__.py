"""The promises between rooms: each Protocol's docstrings are what every implementation of it keeps."""
