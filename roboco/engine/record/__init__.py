"""The records of a task in its workspace, and their recovery into Redis.

Imports the modules of `roboco.engine`. Read `recover.py` first.
"""
