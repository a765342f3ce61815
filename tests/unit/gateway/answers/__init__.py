"""Streams of tasks as the AI SDK and AG-UI read them."""
