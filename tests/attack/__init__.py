"""Attacks by random ends: stops, cancels and signals, after which nothing may be left.

The suite runs a few moments; by hand, as many as you like::

    python -m tests.attack --moments 1000 --ready 1000 --programs 100

`flows` ends random graphs. `ready` ends the graphs that come with modelflow, in a program for each
graph, because then its models load once. `graphs_run` ends programs of ``modelflow run``.
"""
