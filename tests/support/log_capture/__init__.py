"""Workers whose log is written down twice: as it is, and with all that its records hold."""
