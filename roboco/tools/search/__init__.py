"""Full-text and vector search in the histories and files of tasks. Read `memory_index.py` first."""
