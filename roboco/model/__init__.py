"""Models over the chat completions protocol, with native or JSON tool calls. Read `openai_model.py` first."""
