"""Files that units write and name; public, for units."""
