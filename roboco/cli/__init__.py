"""The command line: `roboco`, its commands, and their output.

Imports all other packages. Its own packages build on each other: `terminal`, `stack`, then `interactive`, `doctor` and
`top`, then `commands`, then `main.py`, to read first.
"""
