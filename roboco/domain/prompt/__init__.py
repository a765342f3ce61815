"""The prompt of a turn: the working memory of an agent, as chat messages within a budget.

Imports `team`, `history` and the modules of `roboco.domain`. Read `working_memory.py` first.
"""
