"""Writes and names files; a public package for units."""
