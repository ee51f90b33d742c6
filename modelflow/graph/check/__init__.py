"""The checks of a graph: edges, loops, and the scopes of streams that may meet.

In: nodes and edges. Out: a `Proof` or findings (``report.py``).

``edges.py``: each input is fed once, no cycle without a loop unit. ``loops.py``: which edges lead
back. ``scopes.py``: streams that meet at a node must come from the same origin, since rows are
paired by their position in the stream.
"""
