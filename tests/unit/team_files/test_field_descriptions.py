"""The JSON Schema of team files has the docstrings of their fields."""

from pydantic import BaseModel, Field

from roboco.domain.team.team import Team as DeclaredTeam
from roboco.team_files.field_descriptions import describe_fields


def test_fields_of_the_domains_models_are_described() -> None:
    class Team(BaseModel):
        name: str = Field()
        """Wrong: a class of the same name outside the domain."""

    schema = DeclaredTeam.model_json_schema(by_alias=True)
    describe_fields(schema, DeclaredTeam)
    team, profile = (schema["$defs"][name]["properties"] for name in (Team.__name__, "ModelProfile"))
    assert "delegate" in team["teams"]["description"]
    assert "description" not in team["name"]
    assert profile["images"]["description"] == "The earlier form of `accepts: [image]`, which is still read."
