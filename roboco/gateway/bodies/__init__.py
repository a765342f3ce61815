"""Bounds of bodies. JSON that arrives: `json_values.py`, `strict_json.py`, `mistakes.py`. What is sent:
`body_budget.py`.

So no body keeps the event loop from other requests, and no slow client fills the memory.
"""
