"""Draws graphs as SVG, DOT or Mermaid.

In: a `Graph` or its `Outline`. Out: SVG, DOT or Mermaid.

The texts of nodes and edges are in ``outline.py``. ``layout.py`` places boxes and edges in layers
with few crossings. All functions are pure. The dashboard and the editor use the same layout.
"""
