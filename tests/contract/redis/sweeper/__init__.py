"""The schedule and its fills, on Redis, on a cluster and in memory."""
