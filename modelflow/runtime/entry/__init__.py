"""Where rows enter the graph and leave it."""
