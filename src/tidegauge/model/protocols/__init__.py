"""The Protocols between rooms: their docstrings are what every implementation promises."""
