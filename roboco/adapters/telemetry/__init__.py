"""Metrics, traces and JSON logs, without what users wrote. Read `telemetry.py` first."""
