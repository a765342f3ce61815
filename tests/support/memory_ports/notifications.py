"""Targets of notifications in memory."""

from typing import Any

from roboco.domain.paths import NOTIFY_MARKERS
from roboco.engine import notifications as notify
from tests.support.memory_ports.world import World

SHOP: dict[str, Any] = {"celery": {"task": "shop.done", "args": [], "kwargs": {}, "options": {}}}
HOOK: dict[str, Any] = {
    "webhook": "https://hooks.example/roboco",
    "secret_env": "HOOK",
    "on": ["user_turn", "completed", "cancelled"],
}
URL = str(HOOK["webhook"])


def deliver_all(world: World) -> None:
    """Deliver and advance the clock until no notification is pending."""
    for _ in range(60):
        world.drain()
        if not world.files.names(NOTIFY_MARKERS):
            return
        world.clock.move(notify.REDELIVERY_DELAY)
        world.sweep()
    raise AssertionError(f"still pending: {world.files.names(NOTIFY_MARKERS)} {world.failures[:3]}")
