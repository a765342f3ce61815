"""The JSON Schema of a context, from the templates of prompts."""

from typing import Any

import pytest

from roboco.templates.context_schema import context_schema


@pytest.mark.parametrize(
    ("template", "properties", "required"),
    [
        ("plain text", {}, []),
        ("{{ context.customer }}", {"customer": {}}, ["customer"]),
        ("{{ context['customer'] }}", {"customer": {}}, ["customer"]),
        ("{{ context.customer | default('x') }}", {"customer": {}}, []),
        ("{% if context.customer is defined %}{{ context.customer }}{% endif %}", {"customer": {}}, []),
        ("{% if context.vip %}{{ context.gift }}{% endif %}", {"vip": {}, "gift": {}}, ["vip"]),
        ("{% for one in context.items_sold %}{{ one }}{{ context.unit }}{% endfor %}", None, ["items_sold"]),
        ("{{ context.a if context.b else context.c }}", None, ["b"]),
        ("{{ context.get('a') }} {{ task.prompt }}", {}, []),
        ("{{ broken", {}, []),
    ],
)
def test_uses_become_properties(template: str, properties: dict[str, Any] | None, required: list[str]) -> None:
    schema = context_schema([template])
    assert sorted(schema.get("required", [])) == required
    if properties is not None:
        assert schema["properties"] == properties


def test_nested_uses_of_several_templates_are_merged() -> None:
    schema = context_schema(["{{ context.user.name }}", "{{ context.user.email | default('') }}"])
    user = {"type": "object", "properties": {"name": {}, "email": {}}, "required": ["name"]}
    assert schema == {"type": "object", "properties": {"user": user}, "required": ["user"]}
