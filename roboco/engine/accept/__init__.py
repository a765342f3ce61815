"""Acceptance of requests from outside: submissions, forks, messages, pauses, answers. Each is accepted once.

Imports `record` and the modules of `roboco.engine`. Read `accept_task.py` first, then `accept_item.py`.
"""
