"""Roboco beside DBOS, LangGraph, and Celery written by hand, on one team of three agents and one scripted model.

    pip install -e '.[dev,peers]'
    python -m tests.bench.peers                       the figures and the facts, about a quarter of an hour
    python -m tests.bench.peers figures --runs 3      latency, throughput and CPU
    python -m tests.bench.peers facts                 what happens when a worker is killed in the middle of a turn

Each is set up as its newest documentation advises: `on_NAME.py` is how the bench uses it, `NAME_worker.py` what its
workers run. All have two worker processes that may make 100 turns each at a time, call the model with the openai
package, keep each turn before the next one begins, and relay each token. Only one runs at a time, on servers of its
own.
"""
