"""Celery: the application, its queues, transports and consumers, and the display of messages in Flower.

Read `app.py` first, then `dispatcher.py` and `consumer.py`.
"""
