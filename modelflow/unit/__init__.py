"""What the author of a flow unit must know: the unit, its description, the decorator."""
