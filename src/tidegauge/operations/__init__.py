"""The work of the commands, one file each: verify, backfill, override, rebuild, retry, vacuum and the like.
May use every room except cli, demo, dashboard and api.
"""
