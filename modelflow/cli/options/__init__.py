"""Options that several commands share: parameter types, the graph, files, variables."""
