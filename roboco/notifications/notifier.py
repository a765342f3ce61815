"""The notifier: it delivers notifications to webhooks and as Celery tasks."""

from roboco.domain.notification import Notification, NotifyTarget
from roboco.notifications.callback import CallbackSender
from roboco.notifications.webhook import WebhookSender


class OutboundNotifier:
    """Delivers the notifications of tasks to services of callers."""

    def __init__(self, callbacks: CallbackSender, webhooks: WebhookSender) -> None:
        self._callbacks = callbacks
        self._webhooks = webhooks

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Deliver the notification. Raise UsageError, TransientError or RetryLater as the port `Notifier` says."""
        (self._callbacks if target.webhook is None else self._webhooks).deliver(target, notification)
