"""roboco what-if: runs of a recorded task beside it. Open `command.py` first."""
