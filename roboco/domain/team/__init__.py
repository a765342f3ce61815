"""A team: agents, tools, models, limits and routing, as a team file declares them.

Imports `history` and the modules of `roboco.domain`. Read `team.py` first, then `validation.py`, which lists mistakes.
"""
