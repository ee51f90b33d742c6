"""Graphs: names resolved, checked, drawable; nothing runs here."""
