"""A notifier that keeps the notifications it delivers."""

from roboco.domain.notification import Notification, NotifyTarget


class MemoryNotifier:
    """`deliveries` holds each target's label with its notification, in order. If `error` is set, deliver raises it."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[str, Notification]] = []
        self.error: Exception | None = None

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Keep the notification."""
        if self.error is not None:
            raise self.error
        self.deliveries.append((target.label, notification))

    def statuses(self, name: str) -> list[str]:
        """Return the statuses that this target received, each notification once, in order of arrival."""
        return list(
            {
                notice.notification_id: str(notice.status) for target, notice in self.deliveries if target == name
            }.values()
        )
