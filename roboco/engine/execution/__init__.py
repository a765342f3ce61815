"""Turns and tool calls as agents workers and tools workers make them, under a lease.

Imports `coordinator` and all packages below it. Read `turn.py` first, then `tool_call.py`.
"""
