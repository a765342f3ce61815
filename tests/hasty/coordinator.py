"""roboco.workers.coordinator, in a hurry."""

from roboco.engine import notifications as notify
from roboco.workers import coordinator
from tests.hasty import SOON

notify.UNCONFIRMED = SOON
notify.RING = SOON
app = coordinator.app
