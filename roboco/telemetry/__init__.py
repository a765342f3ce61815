"""Metrics, traces and JSON logs, without texts of users or models. Read `telemetry.py` first."""
