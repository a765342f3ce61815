"""Operations for the operator of a deployment: dead letters, and the queues, workers and rate limits at this moment.

Open `operations.py` first. These modules import the engine, as the rest of the client library does.
"""
