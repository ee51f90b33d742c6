"""The forms of a model: each reads one, and says what its ports are."""
