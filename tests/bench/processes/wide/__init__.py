"""Pools of the benches that have more processes than the usual ones."""
