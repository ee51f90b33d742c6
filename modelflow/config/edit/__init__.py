"""Edits of the text of a graph file: each changes one thing and keeps every other byte.

In: a text and an edit of `GraphText` (``graph_text.py``), such as a new value of an attribute.
Out: the new text, or an error where the edit cannot be written.

``forms.py`` finds the form of the file. ``dot.py`` and ``native.py`` return the splices of an edit;
for DOT several ways are tried, the best first, and the text is read again after each: only a text
that means exactly what was asked is returned (``dot_meaning.py``).
"""
