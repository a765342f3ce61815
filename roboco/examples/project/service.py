"""Submit a task to running workers, and print its text as it arrives.

In another terminal, start a whole stack with `. ./settings.env && roboco dev`. Then, here:

    . .roboco/dev/env && python service.py "a letter about the sea"
"""

import sys

from roboco import Orchestrator, TextPartDelta, TransientError


def main() -> None:
    """Submit the prompt of the command line."""
    prompt = " ".join(sys.argv[1:]) or "a note about the sea"
    with Orchestrator() as roboco:
        task = roboco.run("team.yaml", prompt, context={"audience": "sailors"})
        for item in task.stream():
            if isinstance(item.data, TextPartDelta):
                print(item.data.text, end="", flush=True)
        print(f"\n{task.result().status}")


if __name__ == "__main__":
    try:
        main()
    except TransientError as error:
        raise SystemExit(f"{error}; is the stack running?") from error
