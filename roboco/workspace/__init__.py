"""The workspace in a folder or an S3-compatible store, with conditional writes. Read `open.py` first."""
