"""The domain: what a task, a team, a history and a decision are. Pure: no I/O, no clock, no randomness.

Imports the standard library, pydantic and `roboco.errors`, nothing else. Its packages build on each other: the modules
of this folder, `history`, `team`, then `inbox`, `stream` and `session`, then `decision` and `prompt`, then `replay`.
Read `decision/decide.py` first: one function that returns what happens next.
"""
