"""JSON Schemas: checked, reduced for models, applied to values in bounded work."""
