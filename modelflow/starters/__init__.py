"""Templates that new flow units, graphs and applications are made of."""
