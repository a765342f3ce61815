"""Attackers as data, one a module, named by the position that deploy/SECURITY.md describes.

Tests import their payloads.
`tenant`: schemas, patterns and templates of a tenant who may submit. `producer`: messages of a producer on the broker.
`model_server`: answers without an end. `mcp_server`: a server that steals and changes.
`bounded`: runs such input in a bounded process.
"""
