"""How often a version has ended the process that loaded it or worked for it; pure.

The replica with the models A and B dies while both are loaded: each may have been it, and both are
loaded alone from then on. It dies again while A is loaded: A is out of service, the next replica
comes without it, and B is loaded as any other.
"""

from collections.abc import Mapping, Sequence

from modelflow.serve.activity import State, Version
from modelflow.serve.replicas.record import Suspect

__all__ = ["Deaths"]

_MOST = 2
# Seconds after which a death does not count any more.
_REMEMBERED = 3600.0


class Deaths:
    """Counts them over all processes of a server.

    Attributes:
        condemned: The versions that are out of service, and why.
    """

    def __init__(self) -> None:
        """Begins without any."""
        self._moments: dict[Suspect, list[float]] = {}
        self.condemned: dict[Version, str] = {}

    @property
    def suspects(self) -> Sequence[Version]:
        """The versions that may have ended a process while they were loaded."""
        found = {one.version for one in self._moments if one.state is State.LOADING}
        return sorted(found - self.condemned.keys())

    def note(self, suspects: Sequence[Suspect], now: float) -> Mapping[Version, str]:
        """Notes that a process has died.

        One that is the only suspect has done it. Of several, those that were loaded are to be
        loaded alone; those that worked say nothing, as whoever always works is among them. So one
        that is loaded alone has done it, too, whoever works beside it.

        What several processes load at a time ends them for one reason: that counts once.

        Args:
            suspects: Who may have been it.
            now: The moment, in seconds of `time.monotonic`.

        Returns:
            Those that are out of service from now on, and why.
        """
        loaded = [one for one in suspects if one.state is State.LOADING]
        for one in suspects:
            moments = [m for m in self._moments.get(one, ()) if now - m < _REMEMBERED]
            is_loaded = one.state is State.LOADING
            is_counted = is_loaded and bool(moments) and one.since < moments[-1]
            if not is_counted and (len(suspects) == 1 or (loaded == [one] and moments)):
                self._moments[one] = [*moments, now]
            elif is_loaded:
                self._moments[one] = moments or [now]
        found = {
            one.version: f"it has ended its process {_MOST} times while it {one.state.words}"
            for one in suspects
            if len(self._moments.get(one, ())) >= _MOST and one.version not in self.condemned
        }
        self.condemned |= found
        return found

    def note_loaded(self, version: Version) -> None:
        """Notes that a version has been loaded: what came before had another cause."""
        self._moments.pop(Suspect(version, State.LOADING), None)

    def forget(self, version: Version) -> None:
        """Forgets what a version has done: it is tried again."""
        self.condemned.pop(version, None)
        for state in State:
            self._moments.pop(Suspect(version, state), None)
