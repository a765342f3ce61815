"""How hypothesis runs here: the same examples every time, and no clock in the judgement."""

from hypothesis import settings

settings.register_profile("unit", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("unit")
