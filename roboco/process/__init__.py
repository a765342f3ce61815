"""The clock, threads and optional packages of a process."""
