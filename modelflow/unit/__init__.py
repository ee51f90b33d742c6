"""The API for authors of flow units: the unit, its description, the decorator.

Input: classes and functions of users. Output: `FlowUnitSpec` values, whose import is fast.

``kind.py`` lists the kinds, with the facts that the checker and the plan need. ``option.py``
converts options. ``function.py`` is the decorator.
"""
