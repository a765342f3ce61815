"""Celery: the application, its queues, transports and consumers, and what its tools show.

Read `app.py` first, then `dispatcher.py` and `consumer.py`.
"""
