"""The servers that `serving.py` compares, each with the same model."""
