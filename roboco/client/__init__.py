"""The client library: what a service, the command line and the gateway call.

Imports `roboco.engine`, `roboco.adapters`, `roboco.ports` and `roboco.domain`. Read `orchestrator.py` first, then
`task.py`. `wiring.py` builds the engine of a process from its settings.
"""
