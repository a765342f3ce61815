"""Bounded HTTP requests of workers, and what servers ask a client to wait."""
