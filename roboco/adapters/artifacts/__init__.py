"""Files of tasks: names, types and texts, and results that are too large for the history. Read `store.py` first."""
