"""The notifier, which delivers notifications to webhooks and Celery tasks."""

from typing import Protocol

from roboco.domain.notification import Notice, Notify


class Deliverer(Protocol):
    """Delivers notifications."""

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Deliver the notification within seconds. It may have arrived even if this raises.

        Raise UsageError if no attempt can succeed, TransientError if a later one may, and Later if the receiver states
        when.
        """
