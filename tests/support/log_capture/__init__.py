"""Workers that also store every log record with all of its fields."""
