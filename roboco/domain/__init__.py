"""The domain: tasks, teams, histories and decisions as pure values and functions: no I/O, no clock, no randomness.

Imports the standard library, pydantic and `roboco.errors`, nothing else. Its packages build on each other: the modules
of this folder, `history`, `team`, then `inbox`, `stream` and `session`, then `decision` and `prompt`, then `recorded`.
Read `decision/decide.py` first: one function that returns the next action of a task.
"""
