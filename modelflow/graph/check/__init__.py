"""The checks of a graph: edges, loops, and the scopes of streams that may meet."""
