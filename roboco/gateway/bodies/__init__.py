"""Bounds of bodies. JSON that arrives: `json_values.py`, `strict_json.py`, `mistakes.py`. What is sent: `sent_parts.py`
for streams, `body_budget.py` for large bodies.

So no body keeps the event loop from other requests, and no slow client fills the memory.
"""
