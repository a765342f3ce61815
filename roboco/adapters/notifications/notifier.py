"""The deliverer: to webhooks, and as Celery signatures."""

from roboco.adapters.notifications.callback import Callbacks
from roboco.adapters.notifications.webhook import Webhooks
from roboco.domain.notification import Notice, Notify


class OutsideDeliverer:
    """Tells those outside what has become of a task."""

    def __init__(self, callbacks: Callbacks, webhooks: Webhooks) -> None:
        self._callbacks = callbacks
        self._webhooks = webhooks

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Hand the notice over."""
        (self._callbacks if target.webhook is None else self._webhooks).deliver(target, notice)
