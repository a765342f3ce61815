"""Followers of a task: its logs and channels as one stream, for threads and event loops. Read `follower.py` first."""
