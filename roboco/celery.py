"""Roboco in a shop's own Celery application: `install(app)`, and teams as signatures."""

from roboco.client.shop_app import install
from roboco.client.signature import team

__all__ = ["install", "team"]
