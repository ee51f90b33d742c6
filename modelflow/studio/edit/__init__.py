"""The editor: a graph file as a picture in a browser, and back.

In: operations of a page. Out: the new text, its picture, findings, and results of trial runs.

``draft.py`` holds the text, ``operations.py`` changes it by `modelflow.config.edit`, ``view.py``
is what the page draws, ``trials.py`` runs the graph on samples, ``graph_file.py`` writes the file.
"""
