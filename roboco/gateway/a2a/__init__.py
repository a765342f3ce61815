"""A2A 1.0: teams as agents of the Agent2Agent protocol, by JSON-RPC and by HTTP+JSON.

`message_parts.py` reads messages, and `task_events.py` translates the parts of an answer into events and steps into
artifacts, both without I/O. `push.py` brings a webhook to the receivers of a task. `agent.py` has the operations, and
`routes.py` their two bindings.
"""
