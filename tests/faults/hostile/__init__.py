"""Attackers, one a module, named by the position that deploy/SECURITY.md describes; tests import their payloads."""
