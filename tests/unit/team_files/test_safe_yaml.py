"""YAML of untrusted callers."""

import pytest
import yaml

from roboco.team_files.safe_yaml import read_yaml

ALIAS_BOMB = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12))
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}\n" for n in range(12)
)


@pytest.mark.parametrize("text", ["", "a: 1", "a: &x {b: [1, 2]}\nc: *x\nd: {<<: *x, e: ~}", "- 2026-01-01", "'x'"])
def test_plain_yaml_is_read_as_safe_load_reads_it(text: str) -> None:
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", [ALIAS_BOMB, MERGE_BOMB, "a: &a [*a]", "a: &a {b: *a}"])
def test_the_expansion_of_aliases_is_limited(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="aliases unfold to more than"):
        read_yaml(text)


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system ['id']", "!!python/name:os.system", "!!python/module:os", "!x 1"]
)
def test_tags_create_no_objects(tag: str) -> None:
    with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
        read_yaml(tag)


def test_words_are_keys() -> None:
    assert read_yaml("{on: [a], no: yes}") == {"on": ["a"], "no": True}
