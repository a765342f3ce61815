"""The shop's worker: `celery -A tests.support.celery_shops.shop worker`."""

import os

from tests.support.celery_shops import shop_app

app = shop_app(os.environ.get("SHOP_URL") or os.environ["ROBOCO_REDIS_URL"], results=os.environ.get("SHOP_RESULTS"))
