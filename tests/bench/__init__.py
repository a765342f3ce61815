"""Benches: Roboco and a baseline, measured side by side in the same run. They print ratios and assert nothing.

    python -m tests.bench                        all benches, some minutes
    python -m tests.bench streams --runs 3       one bench
    python -m tests.bench --json figures.json    also store the figures of every round in a file

Each bench is a module here, named after the quantity that it measures. `harness` holds the shared code, and `processes`
the programs that a bench starts. Start with `throughput`.

Roboco and the baseline take turns, and the ratio is computed for each round, so that other load on the machine affects
both. If the ratios of the rounds differ much, the last lines of the output say so.
"""
