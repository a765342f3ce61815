"""The deliverer of notices to webhooks and Celery tasks."""

from typing import Protocol

from roboco.domain.notification import Notice, Notify


class Deliverer(Protocol):
    """Delivers notices."""

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Deliver the notice. It may have arrived even if this raises.

        UsageError if no attempt can succeed; TransientError if a later one may; Later if the receiver says when. This
        returns or raises within seconds.
        """
