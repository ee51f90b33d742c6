"""The tuner: better threads, batches and queues for a graph.

In: a running flow with load. Out: a `TuneReport` and the changed settings.

``cost.py`` measures what stages cost, ``simulate.py`` predicts rate and latency of settings,
``search.py`` chooses candidates, ``tuning.py`` tries the best of them under load. ``cut.py`` and
``sample.py`` estimate what a graph costs when parts of it run elsewhere.
"""
