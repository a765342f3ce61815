"""Effect: the effect of a tool on the world."""

from typing import Literal

Effect = Literal["pure", "idempotent", "irreversible"]
"""The effect of a tool on the world. It determines the treatment of a call whose worker is lost."""
