"""The commands, one module each. Each reads its options, calls the client and prints. Read `submit.py` first."""
