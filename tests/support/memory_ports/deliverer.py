"""A notifier that keeps the notifications it delivers."""

from roboco.domain.notification import Notification, NotifyTarget


class MemoryDeliverer:
    """`told` holds each target's label with the notification, in order of delivery. If `error` is set, deliver raises it."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Notification]] = []
        self.error: Exception | None = None

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Keep the notification."""
        if self.error is not None:
            raise self.error
        self.told.append((target.label, notification))

    def heard(self, name: str) -> list[str]:
        """Return the statuses that this target received, each notification once, in order of arrival."""
        return list(
            {notice.notification_id: str(notice.status) for target, notice in self.told if target == name}.values()
        )
