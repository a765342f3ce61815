"""The pulse of a worker, where ROBOCO_HEALTH_DIR says that somebody wants to know."""

from celery import Celery

from roboco.adapters.celery.health.bootstep import keep_pulse
from roboco.settings import Settings


def run_pulse(app: Celery, settings: Settings, pool: str) -> None:
    """Note the pulse of this application's workers."""
    if settings.health_dir is not None:
        keep_pulse(app, pool, settings.health_dir, settings.health_timeout)
