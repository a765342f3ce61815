"""Tests on real worker processes, in a folder for each subject. `tests/conftest.py` starts the workers and servers."""
