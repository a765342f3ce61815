"""The credentials, threads and optional packages of a process."""
