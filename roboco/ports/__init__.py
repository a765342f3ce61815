"""Ports: the interfaces through which the engine uses Redis, the broker, the workspace, models and tools.

The docstrings are the contract of every implementation. Every method may raise TransientError if its server does not
respond. The engine then abandons its current work, and the sweeper has it done again. A call that is sent twice,
because its answer was lost, has the effect of one.

Fencing: each recorded decision and each commit increases the epoch of the task, its fencing token. A worker passes the
epoch of its work with every write, and a write with an older epoch is refused. Therefore a worker that was paused for
longer than its lease cannot change the task after another worker took over.
"""
