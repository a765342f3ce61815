"""roboco.workers.coordinator with short delays of notifications."""

from roboco.engine import notifications as notify
from roboco.engine.operate import notification_delivery
from roboco.workers import coordinator
from tests.support.fast_redelivery import RETRY_DELAY

notification_delivery.CONFIRM_TIMEOUT = RETRY_DELAY
notify.REDELIVERY_DELAY = RETRY_DELAY
app = coordinator.app
