"""Prompts in a part of Jinja's language, with a budget of steps and size. Read `templates.py` first."""
