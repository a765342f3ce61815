"""Execution: agents workers run turns, and tools workers run tool calls, each under a lease.

Imports `coordinate` and all packages below it. Read `turn.py` first, then `tool_call.py`.
"""
