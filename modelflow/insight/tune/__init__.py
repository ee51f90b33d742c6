"""The tuner finds better threads, batch sizes and queue sizes for a graph.

In: a running flow under load. Out: a `TuneReport` and the changed settings.

``cost.py`` measures the cost of stages, ``simulate.py`` predicts rate and latency of settings, and
``search.py`` chooses candidates. ``tuning.py`` tries the best candidates under load. ``cut.py`` and
``sample.py`` estimate the cost of running parts of a graph on other machines.
"""
