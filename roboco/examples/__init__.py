"""Teams that `roboco demo` offers, with what they need beside a model."""
