"""The delivery of notifications to webhooks and Celery tasks."""

from collections.abc import Callable

from roboco.domain.notification import Notification, NotifyTarget

Deliver = Callable[[NotifyTarget, Notification], None]
"""Delivers the notification within seconds. It may have arrived even if this raises.

It raises UsageError if no attempt can succeed, TransientError if a later one may, and RetryLater if the receiver states
when.
"""
