"""Commands of operators about workers and switches. They may import what the other commands do. Read `workers.py`."""
