"""roboco.workers.coordinator with short delays of notifications."""

from roboco.engine import notification_delivery
from roboco.engine import notifications as notify
from roboco.workers import coordinator
from tests.support.fast_redelivery import SOON

notification_delivery.CONFIRM_TIMEOUT = SOON
notify.REDELIVERY_DELAY = SOON
app = coordinator.app
