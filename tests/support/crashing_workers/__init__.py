"""Composition roots whose workers kill themselves or hang."""
