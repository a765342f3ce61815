"""Parsing of untrusted YAML: no tags that create objects, and no aliases that expand to excessive data."""

import re
from typing import Any

import yaml

MAX_NODES = 100_000
"""Maximum number of values to which a text may expand."""
MAX_LINE_CHARS = 80
"""Characters of a line that a mistake quotes."""


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
            _refuse_repeated_keys(node)
        items = () if isinstance(node, yaml.ScalarNode) else node.value
        inner = [one for item in items for one in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_count_nodes(one, known) for one in inner)
    return known[id(node)]


def yaml_mistake(text: str, error: Exception) -> str:
    """Return the line of the mistake with the remedy for the commonest ones, else with the parser's words."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        return " ".join(str(error).split())
    problem, opened = str(error.problem), error.context_mark or mark
    if "end of stream" in problem or "stream end" in problem:
        sign = text[opened.index : opened.index + 1]
        return _at(text, opened.line, f"the {sign or 'bracket'} that opens here is not closed")
    line = [*text.split("\n"), ""][mark.line]
    before, sign = line[: mark.column], line[mark.column : mark.column + 1]
    if template := re.search(r"[:,\-] *(\{[{%])", line):
        remedy = f"quote a text that begins with {template[1]}"
    elif sign == "\t" or "'\\t'" in problem:
        remedy = "indent with spaces, not with a tab"
    elif "cannot start any token" in problem or "alias" in problem:
        remedy = f"quote a text that begins with {sign}"
    elif "mapping values" in problem or ("expected <block end>" in problem and not before.strip(" -")):
        inner = ": " in before
        remedy = 'quote a text that contains ": "' if inner else "indent this line as the entries before it"
    else:
        remedy = problem
    return _at(text, mark.line, remedy)


def _at(text: str, line: int, problem: str) -> str:
    shown = [*text.split("\n"), ""][line].strip()[:MAX_LINE_CHARS]
    return f'line {line + 1}, "{shown}": {problem}'


def _refuse_repeated_keys(mapping: yaml.MappingNode) -> None:
    seen = set[str]()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen and key.tag != "tag:yaml.org,2002:merge":
            raise yaml.MarkedYAMLError(problem=f"{key.value!r} is there twice", problem_mark=key.start_mark)
        seen.add(str(key.value) if isinstance(key, yaml.ScalarNode) else "")


def _keep_words(mapping: yaml.MappingNode) -> None:
    """Let the keys `on`, `yes` and the like be words: YAML 1.1 reads them as true and false."""
    for key, _ in mapping.value:
        if key.tag == "tag:yaml.org,2002:bool":
            key.tag = "tag:yaml.org,2002:str"
