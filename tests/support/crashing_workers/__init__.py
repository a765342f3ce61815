"""Composition roots whose workers kill themselves."""
