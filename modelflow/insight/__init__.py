"""Tools that measure a flow and say what to change: `doctor`, `tune` and `load`."""
