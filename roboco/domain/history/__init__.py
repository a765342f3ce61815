"""The history of a task: its steps, their parts, and the state that they fold into.

Imports only the modules of `roboco.domain` itself. Read `step.py` first: a step is the unit of commit.
"""
