"""Tools that the coordinator or the client answers, as an agent sees them."""

from typing import Any

import pytest

from roboco.domain.prompt.coordinator_tools import function_schema
from tests.support.servers.dialects.openai_schemas import check_tool_schemas


@pytest.mark.parametrize("declared", [{}, {"type": "object"}, {"type": "object", "required": []}])
def test_a_tool_without_arguments_has_a_schema_that_openai_accepts(declared: dict[str, Any]) -> None:
    tool = function_schema("client_show", "shows it", declared)
    check_tool_schemas([tool])
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}} | declared
