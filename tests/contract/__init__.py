"""Contract tests: every implementation of a port passes the same tests.

The folders are grouped by server: `redis`, `workspace` (a folder or S3) and `model`. A test may import `tests.support`
and parts of `tests.faults`. First file to open: `redis/test_task_store_machine.py`.
"""
