"""The local model that answers where no other one is named, for a first try without a key."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from roboco.adapters.local.llama import MODEL_FILE, LlamaServer, find_model, start_llama
from roboco.adapters.local.process import LOOPBACK

Tell = Callable[[str], None]


def is_named(env: Mapping[str, str]) -> bool:
    """Whether the environment names a model's server or key."""
    return bool(env.get("OPENAI_API_KEY") or env.get("OPENAI_BASE_URL"))


def model_environment(port: int) -> dict[str, str]:
    """What sends a worker's model calls to the local model on this port, and past any proxy."""
    direct = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), LOOPBACK)))
    address = {"OPENAI_BASE_URL": f"http://{LOOPBACK}:{port}/v1", "OPENAI_API_KEY": "local"}
    return address | {"NO_PROXY": direct, "no_proxy": direct}


def find_local_model(tell: Tell) -> Path:
    """The model's file; it is fetched, once, where it is not there. Errors as of `find_model`."""
    named = os.environ.get("ROBOCO_LOCAL_MODEL")
    if not named and not (_cache() / MODEL_FILE).is_file():
        tell("fetching the local model, 93 MB, once ...")
    return find_model(_cache())


def start_local_model(model: Path, log_folder: Path, port: int, tell: Tell) -> LlamaServer:
    """Start the model, and say in one line who answers. Errors as of `start_llama`."""
    server = start_llama(model, log_folder, port)
    who = "a tiny demo model (135M parameters)" if model.name == MODEL_FILE else f"the local model {model.name}"
    tell(f"{who} answers from this machine; set OPENAI_API_KEY for a real one")
    return server


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roboco"
