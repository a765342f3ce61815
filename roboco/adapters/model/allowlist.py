"""Which model servers, and which keys, the operator of a worker allows: a team file alone reaches no address and sends
no variable.
"""

import os

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import leads
from roboco.errors import ModelError

OWN_KEY = "OPENAI_API_KEY"
OWN_ADDRESS = "OPENAI_BASE_URL"
_OPENAI = "https://api.openai.com/v1"


def key_name(profile: ModelProfile) -> str:
    """The variable with the profile's key. A profile with its own address never gets OPENAI_API_KEY unasked."""
    return profile.api_key_env or (OWN_KEY if profile.base_url is None else "")


def check_allowed(profile: ModelProfile, allowed: tuple[str, ...]) -> None:
    """ModelError unless the operator named the profile's address, and named it together with the profile's key.

    An entry is an address (what lies below it counts too), VARIABLE@ADDRESS, or VARIABLE, whose address is the
    worker's own. That one may always be used, with OPENAI_API_KEY.
    """
    own = os.environ.get(OWN_ADDRESS) or _OPENAI
    address, key = profile.base_url or own, key_name(profile)
    servers = [(OWN_KEY, own), *(_read(entry, own) for entry in allowed)]
    reached = [variable for variable, entry in servers if entry == address or leads(entry, address)]
    if not reached:
        raise _refused(profile, f"may not use the address {address!r}", address if not key else f"{key}@{address}")
    if key and key not in reached:
        wanted = key if profile.base_url is None else f"{key}@{address}"
        raise _refused(profile, f"may not send the variable {key} to {_place(profile)}", wanted)


def _read(entry: str, own: str) -> tuple[str, str]:
    """The entry as a variable and the address to which it may be sent."""
    if "://" not in entry:
        return entry, own
    variable, at, address = entry.partition("@")
    return (variable, address) if at and "://" not in variable else ("", entry)


def _place(profile: ModelProfile) -> str:
    return repr(profile.base_url) if profile.base_url else "the worker's own model server"


def _refused(profile: ModelProfile, what: str, entry: str) -> ModelError:
    message = (
        f"model {profile.model!r} {what}: name {entry!r} in ROBOCO_ALLOWED_MODEL_SERVERS where the agents worker runs "
        "to allow it"
    )
    return ModelError("not_allowed", message, False)
