"""Team files: YAML and JSON with limits, and the prompt files that they name. Read `file.py` first."""
