"""``modelflow cache``: what is kept of archives on this machine."""

import time

import click

from modelflow.cli.numbers import FiniteRange, read_size
from modelflow.exit_code import ExitCode

__all__ = ["cache"]

_DAY = 86400.0


@click.group()
def cache() -> None:
    """Shows and removes what is kept of archives: those that a cluster was sent, and the folders
    that archives are unpacked into. They are in $MODELFLOW_CACHE, or ~/.cache/modelflow.

    \b
    modelflow cache list
    modelflow cache prune --size 10GiB
    modelflow cache prune --days 30
    """


@cache.command("list")
def list_cache() -> int:
    """Lists what is kept, what was used last first."""
    from modelflow.archive.kept import list_copies
    from modelflow.archive.unpacked import cache_folder

    copies = list_copies(cache_folder())
    for copy in copies:
        age = (time.time() - copy.used_at) / _DAY
        used = "in use" if copy.is_used else f"used {age:.1f} days ago"
        click.echo(f"{_size(copy.size):>9}  {used:20}  {copy.path}")
    total = sum(copy.size for copy in copies)
    click.echo(f"{_size(total):>9}  in all, {len(copies)} of them, in {cache_folder()}")
    return ExitCode.OK


@cache.command()
@click.option(
    "--size", type=read_size, metavar="SIZE", help="What all that are left may have, as in 10GiB."
)
@click.option(
    "--days", type=FiniteRange(0), help="Only what nobody has begun to use for so many days."
)
def prune(size: float | None, days: float | None) -> int:
    """Removes what was used longest ago, but nothing that a process uses.

    Without an option it removes all of it.
    """
    from modelflow.archive.kept import prune as pruned
    from modelflow.archive.unpacked import cache_folder

    removed = pruned(
        cache_folder(), most_bytes=int(size or 0), unused_for=(days or 0.0) * _DAY, now=time.time()
    )
    for copy in removed:
        click.echo(f"removed {copy.path} ({_size(copy.size)})")
    total = sum(copy.size for copy in removed)
    click.echo(f"{len(removed)} removed, {_size(total)}")
    return ExitCode.OK


def _size(count: int) -> str:
    return f"{count / 2**20:.1f}MiB"
