"""`roboco top`: a snapshot of tasks, workers, queues and rates, and its view. Read `snapshot.py` first."""
