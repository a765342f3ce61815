"""What comes from outside: submissions, forks, messages, pauses, answers. Each is accepted once, however often sent.

Imports `record` and the modules of `roboco.engine`. Read `submit.py` first, then `accept.py`.
"""
