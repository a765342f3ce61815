"""llm: its command line, with a model of its file for other servers than OpenAI's."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import HELLO, LONG_TEXT, PLACE, STOP, WEATHER, drive, endless, expect

folder = Path(tempfile.mkdtemp())
model = {
    "model_id": "desk",
    "model_name": "desk",
    "api_base": os.environ["OPENAI_BASE_URL"],
    "api_key_name": "gateway",
    "headers": STOP,
    "supports_tools": True,
    "supports_schema": True,
}
(folder / "extra-openai-models.yaml").write_text(json.dumps([model]))  # JSON is YAML
(folder / "keys.json").write_text(json.dumps({"gateway": os.environ["OPENAI_API_KEY"]}))
COMMAND = [str(Path(sys.executable).with_name("llm")), "-m", "desk"]
environment = {**os.environ, "LLM_USER_PATH": str(folder)}


def start(*arguments: str) -> subprocess.Popen[str]:
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *arguments], env=environment, **options)


def answer(*arguments: str) -> str:
    process = start(*arguments)
    out, err = process.communicate(timeout=60)
    if process.returncode:
        raise AssertionError(err.strip()[-400:])
    return out.rstrip("\n")


def plain() -> None:
    expect(answer("--no-stream", "Hello"), HELLO)


def stream() -> None:
    process = start("a long one")
    first = os.read(process.stdout.fileno(), 10_000).decode()
    if len(first) >= len(LONG_TEXT):
        raise AssertionError("the text arrived in one piece")
    expect((first + process.communicate(timeout=60)[0]).rstrip("\n"), LONG_TEXT)


def tools() -> None:
    code = 'def weather(city: str) -> str:\n    "Return the weather of a city."\n    return f"sun in {city}"'
    expect(answer("--functions", code, "the weather?"), f"I ask. {WEATHER}")


def structured() -> None:
    expect(json.loads(answer("--schema", "city, degrees int", "as JSON")), PLACE)


def parameters() -> None:
    options = {"temperature": "0.2", "max_tokens": "500", "seed": "7", "top_p": "0.9"}
    expect(answer(*(word for pair in options.items() for word in ("-o", *pair)), "Hello"), HELLO)


def history() -> None:
    answer("one")
    expect(answer("-c", "two"), "helper answers message 2: two")


def cancel() -> None:
    process = start(endless("llm"))
    os.read(process.stdout.fileno(), 10_000)
    process.send_signal(signal.SIGINT)
    process.wait(20)


drive(
    {
        "plain": plain,
        "stream": stream,
        "tools": tools,
        "structured output": structured,
        "parameters": parameters,
        "history": history,
        "cancel": cancel,
    }
)
