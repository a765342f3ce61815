"""Erasure, retention, and tasks as tars: the requests, rules and records.

Imports the modules of `roboco.domain`. Read `erasure.py` first.
"""
