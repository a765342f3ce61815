"""The operator's allowlist of model servers and API keys.

A team file alone can neither reach an address nor send a variable of the worker.
"""

import os

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import leads
from roboco.errors import ModelError

OWN_KEY = "OPENAI_API_KEY"
OWN_ADDRESS = "OPENAI_BASE_URL"
_OPENAI = "https://api.openai.com/v1"


def key_name(profile: ModelProfile) -> str:
    """Return the name of the variable with the profile's API key, or "" if it has none.

    A profile with its own address gets OPENAI_API_KEY only if it names it.
    """
    return profile.api_key_env or (OWN_KEY if profile.base_url is None else "")


def check_allowed(profile: ModelProfile, allowed: tuple[str, ...]) -> None:
    """Raise ModelError unless the operator allows the profile's address together with the profile's key.

    An entry is an address (which also allows every address below it), VARIABLE@ADDRESS, or VARIABLE for the address
    of the worker's own model server. OPENAI_API_KEY at that address is always allowed.
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
    """Return the variable of the entry, "" if it has none, and the address to which that variable may be sent."""
    if "://" not in entry:
        return entry, own
    variable, at, address = entry.partition("@")
    return (variable, address) if at and "://" not in variable else ("", entry)


def _place(profile: ModelProfile) -> str:
    return repr(profile.base_url) if profile.base_url else "the worker's own model server"


def _refused(profile: ModelProfile, what: str, entry: str) -> ModelError:
    allowed = f"name {entry!r} in ROBOCO_ALLOWED_MODEL_SERVERS on the agents worker to allow it"
    message = f"model {profile.model!r} {what}: {allowed}"
    return ModelError("not_allowed", message, False)
