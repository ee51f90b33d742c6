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
    for name, count in (("modelflow", 100), ("thorough", thorough)):
        hypothesis.settings.register_profile(
            name,
            deadline=None,
            max_examples=count,
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
        )
    hypothesis.settings.load_profile("modelflow")


def of_a_hundred(count: int) -> int:
    """Returns the number of examples of a test with ``count`` for every hundred of others."""
    return max(1, hypothesis.settings.default.max_examples * count // 100)
