"""Graph files: a text in any format becomes frozen values with line numbers.

Input: the text of a graph in TOML, YAML, JSON or DOT, or an archive (``read.py``).
Output: a `FlowConfig`, or an error with all mistakes. ``write.py`` is the inverse.

``document.py`` and ``yaml_document.py`` parse values with line numbers, within limits of size and
depth. ``dot/`` parses DOT. ``schema.py`` and ``node_settings.py`` list every key, and the reference
manual is generated from them. ``override.py`` applies ``--set``, ``--arg`` and the environment.
``edit/`` changes texts that a person wrote.
"""
