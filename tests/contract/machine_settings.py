"""How the state machines of this folder run: the same examples every time, and no clock in the judgement.

To look for more, raise `max_examples` and drop `derandomize`; to look into a failure, add `Phase.shrink`, which may
take minutes.
"""

from hypothesis import HealthCheck, Phase, settings

MACHINE_SETTINGS = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
