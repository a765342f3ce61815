"""The command `roboco` as a process, beside running workers. Open `process.py` first, then `shell.py`."""
