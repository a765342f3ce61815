"""The next action of a task: `decide` maps a history and the inputs beside it to one action.

Imports `inbox`, `team`, `history` and the modules of `roboco.domain`. Read `action.py`, then `decide.py`.
"""
