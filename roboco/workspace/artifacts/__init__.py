"""Artifacts, the files of tasks: names, types, texts, and results too large for the history. Read `store.py` first."""
