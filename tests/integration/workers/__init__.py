"""Workers as operators see them: metrics, traces, logs, Flower, and the checks at their start."""
