"""The frozen values that rooms pass to each other, one file for each subject; `protocols` has the Protocols.
May use only errors.
"""
