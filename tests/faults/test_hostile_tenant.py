"""No schema, pattern or template of a hostile tenant exhausts a worker's time or memory.

All inputs run in one process whose limits of memory and processor time the kernel enforces.
"""

from tests.faults.hostile import tenant
from tests.faults.hostile.bounded import run_bounded


def test_schemas_that_hide_work_are_refused() -> None:
    found = run_bounded()["refused_schemas"]
    assert found.keys() == tenant.REFUSED_SCHEMAS.keys()
    assert [name for name, answer in found.items() if not answer or len(answer) > 400] == []


def test_endless_validations_are_ended() -> None:
    found = run_bounded()["endless_schemas"]
    assert found.keys() == tenant.ENDLESS_SCHEMAS.keys()
    assert [name for name, answer in found.items() if "takes more than" not in answer] == []


def test_heavy_patterns_are_refused_before_they_are_compiled() -> None:
    found = run_bounded()["heavy_patterns"]
    assert found.keys() == set(tenant.HEAVY_PATTERNS)
    assert [pattern for pattern, answer in found.items() if not answer] == []


def test_templates_beyond_the_allowed_language_are_refused() -> None:
    found = run_bounded()["refused_templates"]
    assert found.keys() == set(tenant.REFUSED_TEMPLATES)
    assert [template for template, answer in found.items() if not answer] == []


def test_greedy_templates_end() -> None:
    assert run_bounded()["greedy_templates"].keys() == set(tenant.GREEDY_TEMPLATES)
