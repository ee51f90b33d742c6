"""Commands about graph files and models: check, convert, draw, edit, new, model."""
