"""A deliverer that notes what it delivers."""

from roboco.domain.notification import Notification, NotifyTarget


class MemoryDeliverer:
    """`told` are the targets' names and the notices, as they arrived; while it has an `error`, it raises that."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Notification]] = []
        self.error: Exception | None = None

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Note the notice."""
        if self.error is not None:
            raise self.error
        self.told.append((target.label, notification))

    def heard(self, name: str) -> list[str]:
        """The statuses of which this target was told, each once, in the order in which they came."""
        return list(
            {notice.notification_id: str(notice.status) for target, notice in self.told if target == name}.values()
        )
