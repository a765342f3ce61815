"""What operators see of workers: metrics, traces, logs, Flower, and the checks at start."""
