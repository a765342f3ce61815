"""Models: chat completions with native or JSON tool calls, the protocols of providers (`native`), remote agents.

Read `openai_model.py` first.
"""
