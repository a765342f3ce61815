"""Run of a case to its end with a check of all invariants, and the shrinking of a case that breaks one."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.faults.explore.case import Case
from tests.faults.explore.invariants import check
from tests.faults.explore.run import ErrorCollector, Run
from tests.faults.explore.violation import Violation

REPAIR_ROUNDS = 2
"""Number of long delays before the check. They suffice for every repair."""


def violations(case: Case, trace: Callable[[str], None] | None = None) -> list[Violation]:
    """Run the case. Return the invariants that it breaks."""
    run = Run(case, trace)
    with ErrorCollector(run.errors):
        try:
            return _check_when_quiet(run)
        except Violation as broken:
            return [broken]
        finally:
            run.end()


def _check_when_quiet(run: Run) -> list[Violation]:
    """Check the deployment once it is quiet, and once more when all tasks are closed."""
    run.explore()
    run.sweep_after_hours(REPAIR_ROUNDS)
    broken = check(run)
    if run.users.actions[0].answer == "unknown":
        run.perform_action("submit")  # a client repeats an unanswered request
        broken = broken or check(run)
    if broken or not run.open_tasks():
        return broken
    for _ in range(2):  # sub-tasks end with their parent, or after it
        for task_id in run.open_tasks():
            run.stop(task_id)
    run.sweep_after_hours(1)
    return check(run)


def shrink(case: Case, invariant: str) -> Case:
    """Return a smaller case that breaks the same invariant, with minimal disturbances, gaps and choices."""
    better: Case | None = case
    while better is not None:
        case = better
        better = next((less for less in _smaller_cases(case) if _breaks(less, invariant)), None)
    return case


def _breaks(case: Case, invariant: str) -> bool:
    return any(broken.invariant == invariant for broken in violations(case))


def _smaller_cases(case: Case) -> Iterator[Case]:
    all_of_it = case.disturbances
    for size in (4, 2, 1):
        for start in range(len(all_of_it) - size + 1):
            yield replace(case, disturbances=all_of_it[:start] + all_of_it[start + size :])
    for index in range(len(all_of_it) - 1):  # remove this one, and leave the next one at its place
        first, second, rest = all_of_it[index], all_of_it[index + 1], all_of_it[index + 2 :]
        merged = replace(second, gap=first.gap + second.gap)
        yield replace(case, disturbances=(*all_of_it[:index], merged, *rest))
    for index, one in enumerate(all_of_it):
        smaller = [replace(one, gap=gap) for gap in sorted({0, one.gap // 2, one.gap - 1}) if 0 <= gap < one.gap]
        smaller += [replace(one, choice=choice) for choice in range(one.choice)]
        for less in smaller:
            yield replace(case, disturbances=(*all_of_it[:index], less, *all_of_it[index + 1 :]))
