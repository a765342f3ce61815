"""Servers and workers that a command starts on this machine. Read `local_stack.py` first, then `dev_stack.py`."""
