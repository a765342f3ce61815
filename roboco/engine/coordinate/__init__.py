"""The coordinator: one pass over a task decides, records the decision and dispatches it.

Imports `accept`, `record` and the modules of `roboco.engine`. Read `advance.py` first, then `next_step.py`.
"""
