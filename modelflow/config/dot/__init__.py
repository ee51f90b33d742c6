"""DOT, as Graphviz reads it: tokens, statements with their spans, nodes and edges.

In: the text of a graph. Out: a `DotGraph` whose nodes and edges know their lines, and whose `Body`
knows where each statement, name and value stands, for `modelflow.config.edit`.

The parser is our own: error messages need lines and columns, and the dialect (attributes separated
by blanks, HTML strings, ports) is wider than what packages for DOT read.
"""
