"""The sandbox for code that a model wrote: bubblewrap around it, limits in it, and a supervisor that watches both.

Read `sandbox.py` first.
"""
