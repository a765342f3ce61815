"""Programs that the benches start as separate processes: the model server, the baselines, and worker modules."""
