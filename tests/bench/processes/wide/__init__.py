"""Pools with more processes than the default pools."""
