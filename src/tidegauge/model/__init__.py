"""The values that cross rooms, frozen, one file for each subject; the Protocols between rooms in `protocols`.
May use errors alone.
"""
