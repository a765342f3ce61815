"""`roboco doctor`: checks of what a deployment needs. Each yields findings. Read `command.py` first: it prints them."""
