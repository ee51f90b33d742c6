r"""Edits of the text of a graph file.

Input: a text and an edit of `GraphText` (``graph_text.py``), such as a new value of an attribute.
Output: the new text, or an error if the edit cannot be written.

An edit rewrites each affected statement as a whole, and keeps every byte outside of these
statements. A comment of the old statement that has no place in the new statement is put before it.

A statement of TOML is a header, or a key with its value. A statement of DOT is a ``stmt`` of DOT's
grammar. The DOT text in a TOML file is the value of one key. ``toml.py`` and ``dot.py`` write the
statements as splices (``statements.py``). `GraphText` then parses the new text and compares its
`Meaning` with the expected one.

Example, the DOT text before the edits::

    digraph {
        a -> b -> c  // main path
        b [device=cpu /* for now */, batch_size=8]
    }

``disconnect("a", "b")`` replaces the chain ``a -> b -> c``, characters 14 to 25, by two statements:
`Splice(14, 25, "a\n    b -> c")`. The comment behind the chain stays, because it is outside of the
span. ``unset("b", "device")`` replaces the statement at characters 44 to 86, and its comment gets a
line of its own: `Splice(44, 86, "/* for now */\n    b [batch_size=8]")`. The text after both
edits::

    digraph {
        a
        b -> c  // main path
        /* for now */
        b [batch_size=8]
    }
"""
