"""roboco usage: reports of cost, tokens and calls. Open `command.py` first."""
