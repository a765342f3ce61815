"""Readings of recorded tasks: explanations, calls with their results, comparisons of runs.

Imports `decision` and all packages below it. Read `explain.py` first. `roboco/lab/replay` decides such tasks again.
"""
