"""What operators and the clock ask for: sweep, erasure, retention, the index, import, what-if."""
