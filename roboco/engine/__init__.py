"""The engine: executes the decisions of the domain through ports. The commit protocol is here.

Imports `roboco.domain`, `roboco.ports` and `roboco.errors`. Its packages build on each other: the modules of this
folder, `record`, `accept`, `coordinate`, `run`, `operate`. Read `coordinate/submit.py` first, then `advance.py` there.
"""
