"""The engine ``tensorflow``: frozen graphs, SavedModels and Keras models.

Models run as frozen graphs in a session wherever that is possible (see `runners`).
"""
