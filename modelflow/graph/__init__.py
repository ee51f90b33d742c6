"""Graphs: resolves names, converts options and checks edges, without running a unit.

Input: a `FlowConfig` and the `Registry` of units.
Output: a frozen `Graph`, or one `GraphError` with every finding.

``build.py`` builds the graph, and ``build_node.py`` one node. ``check/`` proves that the edges are
valid, and keeps the proof (`Graph.scopes`) for the plan. ``signature.py`` determines types and
shapes of the graph's inputs and outputs. ``archive_parts.py`` and ``files.py`` list the files that
a graph needs.
"""
