"""Tasks from submission to end: journeys, control, failures, results, tenants, and the examples of the guides."""
