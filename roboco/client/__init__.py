"""The client library of services, of the command line and of the gateway.

Imports `roboco.engine` and the packages below it. Read `orchestrator.py` first, then
`task.py` with its parts `task_control.py`, `task_record.py` and `task_files.py`. `wiring.py` builds the
engine of a process from its settings.
"""
