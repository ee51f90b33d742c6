"""How many examples Hypothesis tries, by its profile: ``pytest --hypothesis-profile thorough``."""

import os

import hypothesis

__all__ = ["of_a_hundred", "register_profiles"]


def register_profiles() -> None:
    """Registers the profiles, and loads the profile for every day.

    No test asserts a time, because on a busy machine any example may take any time.
    ``MODELFLOW_EXAMPLES`` sets the number of examples of the profile ``thorough``.
    """
    thorough = int(os.environ.get("MODELFLOW_EXAMPLES", "1000"))
    hypothesis.settings.register_profile("modelflow", deadline=None, max_examples=100)
    hypothesis.settings.register_profile("thorough", deadline=None, max_examples=thorough)
    hypothesis.settings.load_profile("modelflow")


def of_a_hundred(count: int) -> int:
    """Returns the number of examples of a test with ``count`` for every hundred of others."""
    return max(1, hypothesis.settings.default.max_examples * count // 100)
