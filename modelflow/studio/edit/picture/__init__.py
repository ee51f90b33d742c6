"""The nodes and edges of a draft, and their places in the picture. Pure."""
