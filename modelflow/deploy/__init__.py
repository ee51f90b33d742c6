"""Files that put a served graph into containers: Docker, Compose, Kubernetes, Helm.

In: an `Application`: what is known of a graph and of how it is to be served.
Out: texts, which ``modelflow deploy`` writes into a folder. Nothing runs here.

``targets.py`` lists the targets. ``kubernetes.py`` makes objects as values; ``helm.py`` has the
same objects with placeholders. Texts with ``@NAME`` placeholders are in ``texts/``.
"""
