"""The servers that `serving.py` compares: the same model, as each of them wants it."""
