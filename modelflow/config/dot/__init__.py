"""DOT in Graphviz's syntax: tokens, statements with their spans, nodes and edges.

Input: the text of a graph. Output: a `DotGraph`, whose nodes and edges have line numbers. Its
`Body` has the spans of statements, names and values for `modelflow.config.edit`.

The parser is our own because error messages need lines. The dialect (attributes separated by
blanks, HTML strings, ports) is also wider than that of DOT packages.
"""
