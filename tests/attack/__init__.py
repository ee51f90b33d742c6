"""Ends at random moments: stops, cancels, signals; and what must be left of everything: nothing.

The suite runs a few moments; by hand, as many as one likes::

    python -m tests.attack --moments 1000 --ready 1000 --programs 100

`flows` ends random graphs, `ready` the graphs that come with modelflow (a program a graph, so that
its models load once), `graphs_run` programs of ``modelflow run``.
"""
