"""The settings of a command that acts for a person: histories and the audit log name the user of this machine."""

import os
import pwd
import socket

from roboco.domain.schema import MAX_CALLER_CHARS
from roboco.settings import Settings, load_settings


def caller_settings(settings: Settings | None = None) -> Settings:
    """Return the settings with the caller of this process, unless ROBOCO_CALLER names another one."""
    loaded = settings or load_settings()
    return loaded if loaded.caller is not None else loaded.model_copy(update={"caller": local_caller()})


def local_caller() -> str:
    """Return `cli:USER@HOST`, with the user that owns this process, and not the one that the environment names."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user without an entry
        user = str(os.getuid())
    text = f"cli:{user}@{socket.gethostname()}"
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:MAX_CALLER_CHARS]
