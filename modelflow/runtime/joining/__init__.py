"""Where ways meet: `match` pairs the ports of a node, `merge` orders the edges of one port."""
