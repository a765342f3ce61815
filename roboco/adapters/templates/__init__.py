"""Prompts in a subset of Jinja's language, with a budget of steps and size. Read `templates.py` first."""
