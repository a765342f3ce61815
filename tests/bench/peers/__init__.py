"""Roboco beside DBOS, LangGraph, and Celery written by hand, on one team of three agents and one scripted model.

    pip install -e '.[dev,peers]'
    python -m tests.bench.peers                       the figures and the facts, about a quarter of an hour
    python -m tests.bench.peers figures --runs 3      latency, throughput and CPU
    python -m tests.bench.peers facts                 the effects of a kill and of a stop in the middle of a turn

The setup of each peer follows its newest documentation. `NAME_peer.py` is the client and the servers, `NAME_worker.py`
the program of the workers. `errand` defines the workload of all peers, the errand. Each peer has two worker processes
that run up to 100 turns each at a time. It calls the model with the openai package, stores each turn before the next
one begins, and relays each token. Only one peer runs at a time, on separate servers.
"""
