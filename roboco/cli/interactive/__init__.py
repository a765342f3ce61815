"""A live task on a terminal: its stream, the messages of the user, approvals. Read `run_team.py` first."""
