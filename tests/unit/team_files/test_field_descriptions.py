"""The JSON Schema of team files has the docstrings of their fields."""

from typing import Any

from pydantic import BaseModel, Field

from roboco.domain.team.team import Team
from roboco.team_files.field_descriptions import describe_fields


def schema_of_teams() -> dict[str, Any]:
    schema = Team.model_json_schema(by_alias=True)
    describe_fields(schema, Team)
    return schema


def test_fields_of_the_model_itself_are_described() -> None:
    assert "delegate" in schema_of_teams()["$defs"]["Team"]["properties"]["teams"]["description"]


def test_fields_of_nested_models_are_described() -> None:
    profile = schema_of_teams()["$defs"]["ModelProfile"]["properties"]
    assert profile["images"]["description"] == "The earlier form of `accepts: [image]`, which is still read."


def test_class_of_the_same_name_outside_the_domain_describes_nothing() -> None:
    class Team(BaseModel):
        name: str = Field()
        """Wrong."""

    assert Team.__name__ == "Team"
    assert "description" not in schema_of_teams()["$defs"]["Team"]["properties"]["name"]
