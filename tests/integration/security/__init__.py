"""Secrets, signed messages, passwords, Redis users, TLS, and the limits of sandboxes."""
