"""The domain: what a task, a team, a history and a decision are. Pure: no I/O, no clock, no randomness.

Imports the standard library, pydantic and `roboco.errors`, nothing else. The packages build on each other in this order:
the modules of this folder, `history`, then `team`, `inbox`, `stream` and `session`, then `decision` and `prompt`, then
`replay`. Read `decision/decide.py` first: one function that says what happens next.
"""
