"""Bulk controls on the command line: one control of all tasks that meet conditions. Open `bulk_option.py` first.

These modules use the client library, and the commands import them.
"""
