"""YAML from outside: no tags that make objects, and no aliases that unfold to more than anybody wrote."""

from typing import Any

import yaml

MOST_NODES = 100_000
"""How many values a text may unfold to."""


def read_yaml(text: str) -> Any:
    """The data of the text; YAMLError if it is no YAML, or unfolds to too much."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _unfolded(node, {}) > MOST_NODES:
            raise yaml.YAMLError(f"its aliases unfold to more than {MOST_NODES} values")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _unfolded(node: yaml.Node, known: dict[int, int]) -> int:
    """How many nodes there are in it, each alias counted as what it stands for."""
    if id(node) not in known:
        known[id(node)] = MOST_NODES + 1  # of one that holds itself
        items = () if isinstance(node, yaml.ScalarNode) else node.value
        inner = [one for item in items for one in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_unfolded(one, known) for one in inner)
    return known[id(node)]
