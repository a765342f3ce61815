"""Adapters: the ports on real servers, and everything else that touches the world.

Imports `roboco.ports`, `roboco.domain` and third-party packages, not `roboco.engine` or `roboco.client`. Each folder
holds one server, protocol or library. Read the port first, then its adapter.
"""
