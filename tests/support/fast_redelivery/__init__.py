"""Composition roots that send again soon what was not confirmed."""

SOON = 2.0
"""Seconds after which they do."""
