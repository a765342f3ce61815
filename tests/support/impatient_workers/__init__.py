"""Composition roots of workers that are unhealthy after four seconds without a sign of life."""

from roboco.workers import compose_app

vars(compose_app)["HEALTH_TIMEOUT"] = 4.0
