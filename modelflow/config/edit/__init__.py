"""Edits of the text of a graph file: each changes one thing and keeps every other byte."""
