"""The ports that Redis implements: on a server, on a cluster, with every command sent twice, and in memory.

First file to open: `task_under_test.py`, the task on which all of these tests run.
"""
