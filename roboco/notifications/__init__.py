"""Notifications to webhooks and Celery tasks, with signatures and an allowlist. Read `webhook.py` first."""
