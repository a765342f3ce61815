"""What happens next in a task: `decide` maps a history and what waits outside to one action.

Imports `inbox`, `team`, `history` and the modules of `roboco.domain`. Read `action.py`, then `decide.py`.
"""
