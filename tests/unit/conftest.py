"""The hypothesis profile of the unit tests: the same examples in every run, and no deadline."""

from hypothesis import settings

settings.register_profile("unit", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("unit")
