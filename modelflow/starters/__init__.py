"""Templates of new flow units, graphs and applications."""
