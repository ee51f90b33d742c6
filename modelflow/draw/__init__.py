"""Pictures of graphs: what is drawn, where each box stands, and the picture as text or SVG.

In: a `Graph` or the `Outline` of one. Out: SVG, DOT or Mermaid.

``outline.py`` has the texts of nodes and edges, ``layout.py`` places boxes and edges in layers
with few crossings. All of it is pure; the dashboard and the editor use the same
layout.
"""
