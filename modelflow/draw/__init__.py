"""Pictures of graphs: where each box stands, and the picture as SVG or text."""
