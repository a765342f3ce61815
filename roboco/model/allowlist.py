"""The operator's allowlist of model servers and API keys.

A team file alone can neither reach an address nor send a variable of the worker.
"""

import os

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import covers, without_query
from roboco.errors import ModelError

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
LOCAL_KEY = "roboco-local-model"
"""The key of the bundled local model, which calls no tools by the protocol's native means."""
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
_CREDENTIAL = "credential:"
"""The beginning of an entry that allows a credential at an address."""
_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
}
"""The variables that may hold the key of a provider's own server, the usual one first."""
_ADDRESSES = {
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
    "mistral": "https://api.mistral.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
}


def key_variable(profile: ModelProfile) -> str:
    """Return the name of the variable with the profile's API key, or "" if it has none.

    A profile with its own address gets the variable of its provider only if it names it, and one with a credential gets
    none. Bedrock needs no key: without
    one, requests are signed with the credentials that AWS's packages find.
    """
    if profile.api_key_env or profile.base_url is not None or profile.api_key is not None:
        return profile.api_key_env or ""
    variables = _KEY_VARIABLES.get(profile.provider, (DEFAULT_KEY_VARIABLE,))
    usual = "" if profile.provider == "bedrock" else variables[0]
    return next((name for name in variables if os.environ.get(name)), usual)


def model_key(profile: ModelProfile) -> str:
    """Return the profile's API key, or "" if it has none or the variable is not set."""
    return os.environ.get(key_variable(profile), "")


def base_url_of(profile: ModelProfile) -> str | None:
    """Return the address of the profile's model server, or None for that of OpenAI."""
    return profile.base_url or _own_address(profile.provider) or os.environ.get(BASE_URL_VARIABLE) or None


def needs_key(profile: ModelProfile) -> bool:
    """Return True if the profile's server is a provider's own, which answers no request without a key."""
    return profile.provider != "bedrock" and (base_url_of(profile) in (None, _ADDRESSES.get(profile.provider)))


def bedrock_region() -> str:
    """Return the region of AWS in which models are called."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _own_address(provider: str) -> str | None:
    """Return the address of a provider's own server, or None for those that speak OpenAI's protocols."""
    if provider == "bedrock":
        return f"https://bedrock-runtime.{bedrock_region()}.amazonaws.com"
    return _ADDRESSES.get(provider)


def check_allowed(profile: ModelProfile, allowed: tuple[str, ...]) -> None:
    """Raise ModelError unless the operator allows the profile's address together with its key and its headers.

    An entry is an address (which also allows every address below it), VARIABLE@ADDRESS, or VARIABLE for the address
    of the worker's own model server; a provider's usual variable is then allowed at the provider's server as well.
    OPENAI_API_KEY at the worker's own model server is always allowed. A credential may go only to the address of an
    entry credential:NAME@ADDRESS.
    """
    default_url = os.environ.get(BASE_URL_VARIABLE) or DEFAULT_BASE_URL
    address, key = base_url_of(profile) or default_url, key_variable(profile)
    if profile.api_key is not None:
        key = f"{_CREDENTIAL}{profile.api_key.credential}"
    allowed_variables = _sent_to(address, allowed)
    shown = without_query(address)
    if not allowed_variables:
        raise _not_allowed_error(profile, f"may not use the address {shown!r}", _entry(key, shown, default_url))
    for variable in filter(None, (key, *profile.headers.values())):
        if variable not in allowed_variables:
            label = "the worker's own model server" if address == default_url else repr(shown)
            wanted = _entry(variable, shown, default_url)
            raise _not_allowed_error(profile, f"may not send the {_named(variable)} to {label}", wanted)


def variables_for(address: str | None, allowed: tuple[str, ...]) -> list[str]:
    """Return the variables that may be sent to the address, "" if it is allowed without one.

    None is the address of the worker's own model server.
    """
    return [variable for variable in _sent_to(address, allowed) if not variable.startswith(_CREDENTIAL)]


def _sent_to(address: str | None, allowed: tuple[str, ...]) -> list[str]:
    """Return the same with the credentials, each as its entry names it."""
    default_url = os.environ.get(BASE_URL_VARIABLE) or DEFAULT_BASE_URL
    wanted = address or default_url
    servers = [(DEFAULT_KEY_VARIABLE, default_url)]
    servers += [server for entry in allowed for server in _parse_entry(entry, default_url)]
    return [variable for variable, entry in servers if entry == wanted or covers(entry, wanted)]


def _parse_entry(entry: str, default_url: str) -> list[tuple[str, str]]:
    """Return the addresses that the entry allows, each with the variable that may be sent there, "" if none may.

    That of a credential names the address: the address of a provider is allowed for the keys of the operator.
    """
    if "://" not in entry and entry.startswith(_CREDENTIAL):
        return []
    if "://" not in entry:
        own = _address_of(entry)
        return [(entry, default_url), *([(entry, own)] if own else [])]
    variable, at, address = entry.partition("@")
    return [(variable, address) if at and "://" not in variable else ("", entry)]


def _entry(variable: str, address: str, default_url: str) -> str:
    """Return the shortest entry that allows the variable at the address."""
    if not variable:
        return address
    is_short = address in (default_url, _address_of(variable)) and not variable.startswith(_CREDENTIAL)
    return variable if is_short else f"{variable}@{address}"


def _named(variable: str) -> str:
    kind, _, name = variable.rpartition(":")
    return f"credential {name!r}" if kind else f"variable {variable}"


def _address_of(variable: str) -> str | None:
    """Return the address of the provider whose key the variable holds, or None for any other variable."""
    return next((_own_address(provider) for provider, names in _KEY_VARIABLES.items() if variable in names), None)


def _not_allowed_error(profile: ModelProfile, what: str, entry: str) -> ModelError:
    allowed = f"name {entry!r} in model_servers of ROBOCO_ALLOWLIST on the agents worker to allow it"
    message = f"model {profile.model!r} {what}: {allowed}"
    return ModelError("not_allowed", message, False)


def account_headers() -> dict[str, str]:
    """Return the headers that name the account at OpenAI which pays, if variables of this process name it."""
    variables = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return {name: os.environ[variable] for name, variable in variables.items() if os.environ.get(variable)}
