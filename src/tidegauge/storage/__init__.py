"""Files on a local file system or S3: put once, replaced only by those who saw the last version.
Knows model alone.
"""
