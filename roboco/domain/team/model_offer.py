"""A model profile of a team, as users may choose it."""

from roboco.domain.schema import Recorded
from roboco.domain.team.team import Team


class ModelOffer(Recorded):
    """A model profile for users."""

    id: str
    """The name of the profile in the team."""
    label: str
    description: str
    model: str
    """The name of the model at its server."""
    is_default: bool


def offers(team: Team) -> list[ModelOffer]:
    """Return the profiles of the team, in their order."""
    return [
        ModelOffer(
            id=name,
            label=profile.label or name,
            description=profile.description,
            model=profile.model,
            is_default=name == team.default_profile,
        )
        for name, profile in team.models.items()
    ]
