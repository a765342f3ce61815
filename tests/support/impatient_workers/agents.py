"""roboco.workers.agents."""

from roboco.workers.agents import app

__all__ = ["app"]
