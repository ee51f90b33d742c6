"""Graphs: names looked up, options converted, edges checked; nothing runs here.

In: a `FlowConfig` and the `Registry` of units. Out: a frozen `Graph`, or one `GraphError` with
every finding.

``build.py`` does the whole, ``build_node.py`` one node. ``check/`` proves that the edges fit and
keeps the proof (`Graph.scopes`), so planning does not prove it again. ``signature.py`` finds the
inputs and outputs of the graph with types and shapes. ``archive_parts.py`` and ``files.py`` list
the files that a graph needs.
"""
