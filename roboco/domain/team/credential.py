"""credential: the name of a secret of the task's tenant, in place of its value."""

from typing import Annotated

from pydantic import Field

from roboco.domain.schema import InputModel

CREDENTIAL_NAME = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"


class CredentialName(InputModel):
    """A secret that the function of ROBOCO_CREDENTIALS returns for the tenant of the task."""

    credential: Annotated[str, Field(pattern=CREDENTIAL_NAME)]
