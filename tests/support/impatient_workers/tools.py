"""roboco.workers.tools."""

from roboco.workers.tools import app

__all__ = ["app"]
