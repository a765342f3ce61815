"""Input for a task from outside: submissions, messages, pauses, tool results and approvals.

Imports `team`, `history` and the modules of `roboco.domain`. Read `item.py` first: the union of inbox items.
"""
