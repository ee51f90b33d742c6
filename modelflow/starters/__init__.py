"""What new graphs and flow units begin with."""
