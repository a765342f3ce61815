"""`roboco drill` without processes."""
