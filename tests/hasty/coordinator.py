"""workers.coordinator, in a hurry."""

from roboco.engine import notify
from tests.hasty import SOON
from workers import coordinator

notify.UNCONFIRMED = SOON
notify.RING = SOON
app = coordinator.app
