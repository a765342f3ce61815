"""The streams of a task for its followers: events, text, and the merged stream of both.

Imports `team`, `history` and the modules of `roboco.domain`. Read `event.py` first, then `merged.py`.
"""
