"""What a process of Roboco needs of Python: its clock, threads, optional packages."""
