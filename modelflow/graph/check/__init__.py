"""The checks of a graph: edges, loops, and the scopes of streams that may meet.

Input: nodes and edges. Output: a `Proof` or findings (``report.py``).

``edges.py`` checks that each input is fed once, and that each cycle has a loop unit. ``loops.py``
finds the edges that lead back to a loop unit. ``scopes.py`` checks that streams that meet at a node
have the same origin, because rows are paired by their position in the stream.
"""
