"""The process of the local model: llama.cpp's OpenAI-compatible server, until SIGTERM."""

import argparse
import importlib
import os
import signal
from pathlib import Path
from typing import Final

from roboco.local.model_download import MODEL_FILE

SENTENCES: Final = r"""
root ::= sentence (" " sentence){0,2}
sentence ::= [A-Z] character{10,400} [a-z] [.!?]
character ::= [^.!?\n*#:;_()]
"""
"""At most three whole sentences: without limits a tiny model writes lists of numbers, and is cut off in them."""
MAX_TOKENS: Final = 512
"""The longest reply, for requests without this grammar: a call or an output may have texts without an end."""


def main() -> None:
    """Serve `--model` on `--port` of 127.0.0.1."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()

    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = options.model
    params.hostnames, params.port = ["127.0.0.1"], options.port
    params.n_ctx, params.n_parallel = 8192, 2  # 4096 tokens for each of two requests at a time
    threads = max(1, (os.cpu_count() or 1) // 2)  # with one on every core it crawls as soon as one core is busy
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    if Path(options.model).name == MODEL_FILE:  # no request names these; one with a schema has its own grammar
        params.n_predict = MAX_TOKENS
        sampling = params.sampling
        sampling.temp, sampling.min_p = 0.2, 0.1
        sampling.penalty_repeat, sampling.penalty_last_n = 1.1, 256
        sampling.dry_multiplier, sampling.dry_allowed_length = 1.0, 4
        sampling.grammar = llama.CommonGrammar(llama.common_grammar_type.COMMON_GRAMMAR_TYPE_USER, SENTENCES)
    params.ui = False
    params.cache_ram_mib = 64  # of finished prompts; the default lets the process grow by 8 GB
    _server = llama.Server(params)  # its threads serve for as long as it is referenced
    signal.pause()


if __name__ == "__main__":
    main()
