"""ModelOffer: a model profile of a team, as one may choose it."""

from roboco.domain.schema import Recorded
from roboco.domain.team.team import Team


class ModelOffer(Recorded):
    """A profile: `id` is its name in the team, `model` what its server calls it."""

    id: str
    label: str
    description: str
    model: str
    is_default: bool


def offers(team: Team) -> list[ModelOffer]:
    """The profiles of the team, in their order."""
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
