"""Edits of the text of a graph file.

In: a text and an edit of `GraphText` (``graph_text.py``), such as a new value of an attribute.
Out: the new text, or an error where the edit cannot be written.

The rule: an edit writes the statements that it is about anew, each as a whole, and keeps every byte
outside of them; a comment inside such a statement that has no place in the new one goes before it.

A statement of TOML is a header or a key with its value, a statement of DOT what the grammar calls
so. The DOT text in a TOML file is the value of one key. ``toml.py`` and ``dot.py`` write the
statements; `GraphText` reads the new text again and compares its `Meaning` with what was asked.
"""
