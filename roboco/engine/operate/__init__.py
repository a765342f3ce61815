"""Work for operators and the clock: sweep, fill, erasure, retention, notifications, the index.

Imports all other packages of the engine. Read `sweep.py` first.
"""
