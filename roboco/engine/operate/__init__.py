"""Work for operators and the clock: sweep, erasure, retention, fill, the index, import.

Imports all other packages of the engine. Read `sweep.py` first.
"""
