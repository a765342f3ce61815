"""The command line: `roboco`, its commands, and what they print.

Imports all other packages. Its own packages build on each other: `terminal`, `stack`, then `interactive`, `doctor` and
`top`, then `commands`, then `main.py`, which is the place to start.
"""
