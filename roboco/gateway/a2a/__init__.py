"""A2A 1.0: teams as agents of the Agent2Agent protocol, by JSON-RPC and by HTTP+JSON.

`task_events.py` translates the parts of an answer into events and steps into artifacts, without I/O. `contexts.py`
brings a message to the task of its context, and `push.py` a webhook to the receivers of a task. `agent.py` has the
operations, and `routes.py` their two bindings.
"""
