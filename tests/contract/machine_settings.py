"""Settings of the state machines of hypothesis: the same examples in every run, and no deadlines.

To search for more failures, raise `max_examples` and drop `derandomize`. To examine a failure, add `Phase.shrink`;
that may take minutes.
"""

from hypothesis import HealthCheck, Phase, settings

MACHINE_SETTINGS = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
