"""The clients of the gateway that people have, in their current releases, unmodified.

`python -m tests.clients` drives them, each in an environment as its user has it. `scripts` has a script for each.
"""
