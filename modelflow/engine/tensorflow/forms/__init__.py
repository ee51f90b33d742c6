"""The forms of a model: each module reads one form and finds the ports."""
