"""Flow units: the reusable operations of a graph, their descriptions, and how they are found."""
