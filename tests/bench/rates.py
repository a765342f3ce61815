"""`python -m tests.bench.rates`: twenty turns at once against a profile of 600 tokens a minute, on real workers.

The bench prints the highest number of tokens that the model server counted in any sixty seconds, and the limit. It also
prints the statuses of the tasks. It takes about three minutes, because the limit allows the tokens no sooner.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from roboco import parse_team
from tests.bench.harness.bench_stack import DeployedStack
from tests.support.servers.model_server import Reply

WINDOW = 60.0
REQUEST_TOKENS = (60, 20)
"""Input and output tokens that the server counts for each request."""


def main() -> None:
    """Run the turns, and print the tokens in the busiest minute."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rates")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=600, help="tokens a minute")
    options = parser.parse_args()
    profile = {"model": "scripted", "max_tokens": 60, "tokens_per_minute": options.tokens}
    team = parse_team({"name": "many", "models": {"m": profile}, "agents": [{"name": "one", "prompt": "hi"}]})
    with (
        tempfile.TemporaryDirectory(prefix="roboco-rates-") as folder,
        DeployedStack(Path(folder), lease_seconds=15.0) as stack,
    ):
        stack.model.script(lambda request: Reply(text="x", usage=REQUEST_TOKENS))
        tasks = [stack.orchestrator.run(team, f"turn {number}") for number in range(options.turns)]
        ended = Counter(str(task.result(900).status) for task in tasks)
        times = sorted(record.time for record in stack.model.requests)
    most = max(sum(sum(REQUEST_TOKENS) for at in times if start <= at < start + WINDOW) for start in times)
    print(f"{len(times)} requests of {sum(REQUEST_TOKENS)} tokens in {times[-1] - times[0]:.0f} s: {dict(ended)}")
    print(f"most in any {WINDOW:g} s: {most} tokens, the limit is {options.tokens}: ratio {most / options.tokens:.2f}")
    sys.exit(0 if set(ended) == {"completed"} else 1)


if __name__ == "__main__":
    main()
