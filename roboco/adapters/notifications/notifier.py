"""The notifier: it delivers notifications to webhooks and as Celery tasks."""

from roboco.adapters.notifications.callback import CallbackSender
from roboco.adapters.notifications.webhook import WebhookSender
from roboco.domain.notification import Notification, NotifyTarget


class OutboundNotifier:
    """Delivers the notifications of tasks to services of callers."""

    def __init__(self, callbacks: CallbackSender, webhooks: WebhookSender) -> None:
        self._callbacks = callbacks
        self._webhooks = webhooks

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Deliver the notification. Raise UsageError, TransientError or RetryLater as the port `Notifier` says."""
        (self._callbacks if target.webhook is None else self._webhooks).deliver(target, notification)
