"""The editor, which shows and changes a graph file as a picture in a browser.

A page sends operations. It gets the new text, its picture, findings, and results of trial runs.

``draft.py`` holds the text, and ``operations.py`` changes it with `modelflow.config.edit`.
``view.py`` computes the answer to the page, and ``picture`` the nodes and their places.
``models`` brings models and folders of units in. ``trial`` runs the graph on samples.
``graph_file.py`` writes the file.
"""
