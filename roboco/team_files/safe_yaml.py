"""Parsing of untrusted YAML: no tags that create objects, and no aliases that expand to excessive data."""

from typing import Any

import yaml

MAX_NODES = 100_000
"""Maximum number of values to which a text may expand."""


def read_yaml(text: str) -> Any:
    """Return the data of the text. Raise YAMLError if it is not YAML, or expands to too much."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _count_nodes(node, {}) > MAX_NODES:
            raise yaml.YAMLError(f"its aliases unfold to more than {MAX_NODES} values")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count_nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of nodes in the node; each alias counts as the node that it repeats."""
    if id(node) not in known:
        known[id(node)] = MAX_NODES + 1  # the value for a node that contains itself
        if isinstance(node, yaml.MappingNode):
            _keep_words(node)
        items = () if isinstance(node, yaml.ScalarNode) else node.value
        inner = [one for item in items for one in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_count_nodes(one, known) for one in inner)
    return known[id(node)]


def _keep_words(mapping: yaml.MappingNode) -> None:
    """Let the keys `on`, `yes` and the like be words: YAML 1.1 reads them as true and false."""
    for key, _ in mapping.value:
        if key.tag == "tag:yaml.org,2002:bool":
            key.tag = "tag:yaml.org,2002:str"
