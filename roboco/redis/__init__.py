"""Redis: the state of tasks, leases, streams and rate limits. One Lua file for each operation, in `lua/`.

Read `keys.py` first, then `task_store.py` and `leases.py`.
"""
