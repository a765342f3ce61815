"""Prompts as templates of MiniJinja, which bounds their work. Read `templates.py` first."""
