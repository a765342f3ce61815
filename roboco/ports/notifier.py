"""The notifier, which delivers notifications to webhooks and Celery tasks."""

from typing import Protocol

from roboco.domain.notification import Notification, NotifyTarget


class Notifier(Protocol):
    """Delivers notifications."""

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Deliver the notification within seconds. It may have arrived even if this raises.

        Raise UsageError if no attempt can succeed, TransientError if a later one may, and RetryLater if the receiver
        states when.
        """
