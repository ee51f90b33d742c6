"""What the author of a flow unit uses: the unit, its description, the decorator.

In: classes and functions of users. Out: `FlowUnitSpec` values, which load nothing heavy.

``kind.py`` lists the kinds and what checker and plan know of each; ``option.py`` converts options;
``function.py`` is the decorator.
"""
