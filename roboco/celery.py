"""Roboco in a shop's own Celery application: `install(app)`, and teams as signatures."""

from roboco.client.canvas.install import install
from roboco.client.canvas.signature import team

__all__ = ["install", "team"]
