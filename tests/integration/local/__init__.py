"""The servers of a local stack: Redis, the S3 server, and the local model with its download."""
