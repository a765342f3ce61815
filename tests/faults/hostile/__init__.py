"""Attackers, one a module, named by their positions in deploy/SECURITY.md. Open `producer.py` first.

Tests import their payloads.
`tenant`: schemas, patterns and templates of a tenant who may submit. `producer`: messages of a producer on the broker.
`model_server`: answers without an end. `mcp_server`: a server that reads secrets and changes files.
`bounded`: runs such input in a bounded process.
"""
