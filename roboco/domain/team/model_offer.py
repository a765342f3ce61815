"""A model profile of a team, as users may choose it."""

from roboco.domain.schema import RecordModel
from roboco.domain.team.team import Team


class ModelProfileInfo(RecordModel):
    """A model profile for users."""

    id: str
    """The name of the profile in the team."""
    label: str
    description: str
    model: str = ""
    """The name of the model at its server."""
    is_default: bool = False


def profile_infos(team: Team) -> list[ModelProfileInfo]:
    """Return the profiles of the team, in their order."""
    return [
        ModelProfileInfo(
            id=name,
            label=profile.label or name,
            description=profile.description,
            model=profile.model,
            is_default=name == team.default_profile,
        )
        for name, profile in team.models.items()
    ]
