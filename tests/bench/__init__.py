"""Benches: Roboco and its limit, measured side by side in the same run. They print ratios and assert nothing.

    python -m tests.bench                        all of them, some minutes
    python -m tests.bench relay --runs 3         one of them
    python -m tests.bench --json figures.json    the figures of every run in a file as well

Each bench is one file, named by what it measures. Its lanes take turns, and the ratio is taken of each round alone, so
that what else the machine does meets both sides; where the ratios of the rounds lie far apart, the last lines say so.
"""
