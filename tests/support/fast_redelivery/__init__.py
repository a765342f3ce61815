"""Composition roots that redeliver unconfirmed notifications soon."""

SOON = 2.0
"""Seconds until a redelivery."""
