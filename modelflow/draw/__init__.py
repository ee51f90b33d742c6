"""Draws graphs as SVG, DOT or Mermaid.

In: a `Graph` or its `Outline`. Out: SVG, DOT or Mermaid.

The texts of nodes and edges are in ``outline.py``. ``layers.py`` orders the boxes with few
crossings, ``layout.py`` places them and leads wires between them, and ``shapes.py`` has the result.
All functions are pure. The dashboard and the editor use the same layout.
"""
