"""Servers that fail on demand: a model server, and a proxy before Redis or S3. Tests use them too.

They import the standard library, aiohttp, each other, and nothing else of Roboco. Read `model_server.py` and `gate.py`.
"""
