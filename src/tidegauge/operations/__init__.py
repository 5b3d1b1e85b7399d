"""One file for one command's work: verify, backfill, override, rebuild, retry, vacuum and the like.
Knows every room but cli and demo.
"""
