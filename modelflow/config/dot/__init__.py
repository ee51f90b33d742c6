"""DOT, as Graphviz reads it: tokens, statements with their spans, nodes and edges."""
