"""Ends at random moments: stops, cancels, signals; and what must be left of everything: nothing.

The suite runs a few moments; by hand, as many as one likes::

    python -m tests.attack --moments 1000
"""
