"""Shared code of the benches: the stack, the clients that measure, and the report. Start with `bench_stack`."""
