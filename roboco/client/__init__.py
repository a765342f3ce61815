"""The client library of services, of the command line and of the gateway.

Imports `roboco.engine` and the packages below it. Read `orchestrator.py` first, then `task.py`. `wiring.py`
builds the engine of a process from its settings.
"""
