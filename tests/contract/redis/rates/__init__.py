"""Rate limits on Redis and in memory."""
