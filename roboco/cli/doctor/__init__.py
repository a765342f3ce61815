"""`roboco doctor`: checks of a deployment. Each yields findings. Read `command.py` first: it prints them."""
