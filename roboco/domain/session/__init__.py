"""A task as a conversation: messages for user interfaces, whole or as a delta.

Imports `history` and the modules of `roboco.domain`. Read `session.py` first.
"""
