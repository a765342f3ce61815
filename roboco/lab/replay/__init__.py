"""Recorded tasks decided again, without a model: `roboco replay`, `roboco export-test`. Read `replay.py` first."""
