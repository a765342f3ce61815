"""The evaluation of benchmark samples: ratios, goals, the report, noise and plots."""

from tests.bench.simulation import MARKS, document
from tests.support.stack import ROOT


def test_the_guide_of_scaling_has_the_tables_of_the_simulation() -> None:
    guide = (ROOT / "roboco" / "docs" / "scaling.md").read_text()
    assert MARKS[0] in guide
    assert document(guide) == guide, "print the tables with `python -m tests.bench.simulation`"
