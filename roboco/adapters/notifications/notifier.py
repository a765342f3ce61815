"""The notifier: it delivers notifications to webhooks and as Celery tasks."""

from roboco.adapters.notifications.callback import Callbacks
from roboco.adapters.notifications.webhook import Webhooks
from roboco.domain.notification import Notice, Notify


class OutsideDeliverer:
    """Delivers the notifications of tasks to services of callers."""

    def __init__(self, callbacks: Callbacks, webhooks: Webhooks) -> None:
        self._callbacks = callbacks
        self._webhooks = webhooks

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Deliver the notification. Raise UsageError, TransientError or RetryLater as the port `Notifier` says."""
        (self._callbacks if target.webhook is None else self._webhooks).deliver(target, notice)
