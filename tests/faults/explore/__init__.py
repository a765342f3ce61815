"""The explorer: random schedules of a whole deployment in memory. Open `run.py` first.

Workers, sweepers and users run interleaved at their port calls. A case lists the disturbances of one schedule, so it
replays exactly and shrinks. This folder may import `tests.support.memory_ports` and all of `roboco`.
"""
