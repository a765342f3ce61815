"""What is recorded of a task, and its recovery where Redis has lost it.

Imports the modules of `roboco.engine`. Read `recover.py` first.
"""
