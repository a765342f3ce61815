"""Composition roots whose applications send every Celery message twice."""

from typing import Any

from celery import Celery


def send_twice(app: Celery) -> Celery:
    """Return the application, changed to send every message twice."""
    send = app.send_task

    def twice(*args: Any, **kwargs: Any) -> Any:
        send(*args, **kwargs)
        return send(*args, **kwargs)

    vars(app)["send_task"] = twice
    return app
