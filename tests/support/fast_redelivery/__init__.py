"""Composition roots that redeliver unconfirmed notifications soon."""

RETRY_DELAY = 2.0
"""Seconds until a redelivery."""
