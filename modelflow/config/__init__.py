"""Graph files: text in any format becomes frozen values that know their line.

In: the text of a graph in TOML, YAML, JSON or DOT, or an archive (``read.py``).
Out: a `FlowConfig`, or all mistakes at once. ``write.py`` is the way back.

``document.py`` and ``yaml_document.py`` give values with line numbers within bounds of size and
depth; ``dot/`` reads DOT. ``schema.py`` and ``node_settings.py`` list every key: the reference
manual is generated from them. ``override.py`` applies ``--set``, ``--arg`` and the environment.
``edit/`` changes texts that a person wrote.
"""
