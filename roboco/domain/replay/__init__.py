"""Replay of recorded histories: explanations, comparisons and tests of a team's routing. Only the CLI uses it.

Imports `decision` and all packages below it. Read `replay.py` first.
"""
