"""Submissions and notifications between Roboco and other services: plain Celery, canvases, a socket, webhooks."""
