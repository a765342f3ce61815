"""Tools: functions of allowed modules, built-in tools, and the toolbox of a worker. Read `toolbox.py` first."""
