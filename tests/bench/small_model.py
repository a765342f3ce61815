"""small_model: what the tiny local model makes of `roboco demo` and of README's team, in runs without a key.

`python -m tests.bench.small_model --runs 10` prints the texts and faults of each run, and how many runs were good. A
run loops if eight words in a row occur twice in its texts. A text is cut if it does not end as a sentence. A tool's
result is used if the writer's next text has a word of its theme. Texts about the text are faults, too.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.documents import write_files

TOPICS = ("the sea at night", "a walk in the rain", "an old lighthouse", "a street market", "snow in the mountains")
USES = {
    "Write about the smell of the place.": r"smell|scent|aroma|fragran",
    "Write about the sound of the place.": r"sound|hear|whisper|melod|echo|music",
    "Write about the people of the place.": r"people|family|communit|we |they ",
    "For sailors, write about the wind and the stars.": r"wind|star",
}
"""The results of tools, and words of texts that use them."""
ABOUT_THE_TEXT = r"glad|writ(?:ing|er)|narrative|sentence|critic|rephras"
WORDS_IN_A_ROW = 8


def main() -> None:
    """Run both teams, and print what was found."""
    parser = argparse.ArgumentParser(prog="small_model")
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_files(folder)
        for name, command in (
            ("demo", ["demo"]),
            ("README", ["run", "team.yaml", "the sea", "--context", "audience=sailors"]),
            ("demo, topics", ["demo", "TOPIC"]),
        ):
            good = 0
            for number in range(runs):
                given = [TOPICS[number % len(TOPICS)] if word == "TOPIC" else word for word in command]
                faults = [*_faults(_history(given, folder), hands_back=command[0] == "demo")]
                good += not faults
                print(f"{name} {number + 1}: {'; '.join(faults) or 'good'}", flush=True)
            print(f"{name}: {good} of {runs} good", flush=True)


def _history(arguments: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROBOCO_", "OPENAI_"))}
    environment = kept | {"ROBOCO_TOOL_MODULES": "shop_tools"}
    command = [sys.executable, "-m", "roboco.cli.main", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    files = re.search(r"^files: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode or files is None:
        raise SystemExit(done.stdout + done.stderr)
    lines = (folder / files[1] / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _faults(history: list[dict[str, Any]], hands_back: bool) -> Iterator[str]:
    agents = [step["agent_name"] for step in history[1:] if _text(step)]
    if hands_back and agents != ["writer", "critic", "writer"]:
        yield f"no hand-back: {', '.join(agents)}"
    texts = [text for step in history if step["agent_name"] == "writer" and (text := _text(step))]
    print(*texts, sep="\n", flush=True)
    results = [
        (part["tool_result"]["result"], next(_text(step) for step in history[place:] if step["agent_name"] == "writer"))
        for place, before in enumerate(history)
        for part in before["parts"]
        if part["type"] == "tool_result" and part["tool_result"]["result"] in USES
    ]
    if not results:
        yield "no tool was called"
    yield from (f"unused: {result!r}" for result, text in results if not re.search(USES[result], text.lower()))
    yield from (f"cut: {text[-40:]!r}" for text in texts if not re.search(r"[a-z]{2}[.!?]$", text))
    said = " ".join(texts).lower()
    yield from (f"about the text: {word!r}" for word in re.findall(ABOUT_THE_TEXT, said))
    words = re.findall(r"\w+", said)
    rows = [" ".join(words[place : place + WORDS_IN_A_ROW]) for place in range(len(words) - WORDS_IN_A_ROW + 1)]
    yield from (f"loop: {row!r}" for row in {row for row in rows if rows.count(row) > 1})


def _text(step: dict[str, Any]) -> str:
    return "".join(part["text"] for part in step["parts"] if part["type"] == "text").strip()


if __name__ == "__main__":
    main()
