"""roboco docs: the list of guides, and a guide."""

from click.testing import CliRunner

from roboco import UsageError
from roboco.cli.commands.docs import docs, pages
from tests.support.documents import GUIDES


def test_list_has_every_guide_with_its_subject() -> None:
    assert set(pages()) == {path.stem for path in GUIDES.glob("*.md")}
    printed = CliRunner().invoke(docs).output.splitlines()
    assert [line.split()[0] for line in printed[:-1]] == list(pages())
    assert "tokens, cost, steps and time" in next(line for line in printed if line.startswith("limits"))


def test_pipe_gets_markdown_without_the_comments_for_tests() -> None:
    printed = CliRunner().invoke(docs, "streaming").output
    assert printed.startswith("# Streaming\n")
    assert "<!--" not in printed
    assert "```python\nfrom roboco import Orchestrator\n" in printed


def test_unknown_guide_is_an_error_that_lists_the_guides() -> None:
    error = CliRunner().invoke(docs, "nothing").exception
    assert isinstance(error, UsageError)
    assert str(error) == f"there is no guide 'nothing'; guides: {', '.join(pages())}"
