"""The operator's allowlist of model servers and API keys.

A team file alone can neither reach an address nor send a variable of the worker.
"""

import os

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import covers
from roboco.errors import ModelError

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"


def key_variable(profile: ModelProfile) -> str:
    """Return the name of the variable with the profile's API key, or "" if it has none.

    A profile with its own address gets OPENAI_API_KEY only if it names it.
    """
    return profile.api_key_env or (DEFAULT_KEY_VARIABLE if profile.base_url is None else "")


def model_key(profile: ModelProfile) -> str:
    """Return the profile's API key, or "" if it has none or the variable is not set."""
    return os.environ.get(key_variable(profile), "")


def base_url_of(profile: ModelProfile) -> str | None:
    """Return the address of the profile's model server, or None for that of OpenAI."""
    return profile.base_url or os.environ.get(BASE_URL_VARIABLE) or None


def check_allowed(profile: ModelProfile, allowed: tuple[str, ...]) -> None:
    """Raise ModelError unless the operator allows the profile's address together with its key and its headers.

    An entry is an address (which also allows every address below it), VARIABLE@ADDRESS, or VARIABLE for the address
    of the worker's own model server. OPENAI_API_KEY at that address is always allowed.
    """
    default_url = os.environ.get(BASE_URL_VARIABLE) or DEFAULT_BASE_URL
    address, key = profile.base_url or default_url, key_variable(profile)
    servers = [(DEFAULT_KEY_VARIABLE, default_url), *(_parse_entry(entry, default_url) for entry in allowed)]
    allowed_variables = [variable for variable, entry in servers if entry == address or covers(entry, address)]
    if not allowed_variables:
        raise _not_allowed_error(
            profile, f"may not use the address {address!r}", address if not key else f"{key}@{address}"
        )
    for variable in filter(None, (key, *profile.headers.values())):
        if variable not in allowed_variables:
            wanted = variable if profile.base_url is None else f"{variable}@{address}"
            raise _not_allowed_error(
                profile, f"may not send the variable {variable} to {_server_label(profile)}", wanted
            )


def _parse_entry(entry: str, default_url: str) -> tuple[str, str]:
    """Return the variable of the entry, "" if it has none, and the address to which that variable may be sent."""
    if "://" not in entry:
        return entry, default_url
    variable, at, address = entry.partition("@")
    return (variable, address) if at and "://" not in variable else ("", entry)


def _server_label(profile: ModelProfile) -> str:
    return repr(profile.base_url) if profile.base_url else "the worker's own model server"


def _not_allowed_error(profile: ModelProfile, what: str, entry: str) -> ModelError:
    allowed = f"name {entry!r} in ROBOCO_ALLOWED_MODEL_SERVERS on the agents worker to allow it"
    message = f"model {profile.model!r} {what}: {allowed}"
    return ModelError("not_allowed", message, False)
