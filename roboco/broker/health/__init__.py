"""The liveness of a worker: a step of its consumer that probes its main loop. Read `bootstep.py` first."""
