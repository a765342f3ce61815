"""Bounds of bodies. JSON that arrives: `json_values.py`, `mistakes.py`. Streams that are sent: `sent_parts.py`.

So no body keeps the event loop from other requests, and no slow client fills the memory. Imports nothing of Roboco.
"""
