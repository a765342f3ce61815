"""AG-UI 1.0 on the prefix `/agui`: a thread is a chat, a run is an answer, and each agent's turn is a sub-agent's.

`routes.py` holds the routes, and `run_stream.py` translates the parts of an answer into events without I/O.
"""
