"""Files that put a served graph into containers: Docker, Compose, Kubernetes, Helm.

In: an `Application`, which describes a graph and how to serve the graph.
Out: texts, which ``modelflow deploy`` writes into a folder. Nothing runs here.

The targets are in ``targets.py``. ``kubernetes.py`` makes objects as values, and ``helm.py`` has
the same objects with placeholders. Texts with ``@NAME`` placeholders are in ``texts/``.
"""
