"""The commands ``modelflow pack`` and ``modelflow cache``: archives of graphs, and their cache."""

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.parameters import FiniteRange, declare_file, declare_repeated, read_size
from modelflow.cli.terminal.messages import tell
from modelflow.cli.terminal.progress import show_if_slow
from modelflow.signals import ExitCode, end_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from modelflow.archive.manifest import Manifest
    from modelflow.graph.graph_port import GraphPort


lock_option = declare_file(
    "--lock",
    "lock",
    "Your own requirements.lock, for example with hashes. It is copied without changes.",
)
"""Adds ``--lock`` to a command."""


@click.command()
@graph_options
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="NAME.mfz",
    help="The archive. Default: GRAPH.mfz in the current folder.",
)
@declare_repeated(
    "--include",
    "includes",
    "GLOB",
    "More files that a unit reads, relative to the graph. May be repeated.",
)
@declare_repeated(
    "--extra",
    "extras",
    "NAME",
    "Another extra of modelflow for requirements.lock, such as serve. May be repeated.",
)
@lock_option
@click.option(
    "--check",
    "is_checked",
    is_flag=True,
    help="Verify the archive GRAPH and print its contents, without running any of its code.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the contents as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors on stderr.")
def pack(graph: GraphChoice, target: Path | None, **given: Any) -> int:
    """Packs a graph with its units, models, files and modules into one archive.

    You can run, serve, check and draw an archive like a graph file, on any machine with the
    packages of its requirements.lock. The same files give the same bytes. The archive keeps the
    values of --set and --arg. Hidden files, results and Python packages are not packed.

    \b
    modelflow pack graph.toml -o digits.mfz
    modelflow pack graph.toml -o digits.mfz --include 'words/*.txt' --extra serve
    modelflow pack --check digits.mfz
    modelflow run digits.mfz --input photos
    """
    if given["is_checked"]:
        from modelflow.archive.archive import Archive

        with Archive(Path(graph.source)) as archive:
            archive.verify()
            _print(archive.manifest, archive.path, archive.digest, given["as_json"])
        return ExitCode.OK
    path = Path(f"{graph.path.stem}.mfz") if target is None else target
    notes: list[str] = []
    with end_on_sigterm():
        manifest = pack_graph(graph, path, given, given["extras"], notes)
    if not given["quiet"]:
        for text in notes:
            tell("note", text)
    _print(manifest, path, None, given["as_json"])
    return ExitCode.OK


def pack_graph(
    choice: GraphChoice,
    target: Path,
    given: "Mapping[str, Any]",
    extras: "Sequence[str]",
    notes: list[str],
) -> "Manifest":
    """Packs a graph.

    Args:
        choice: The graph, with its settings.
        target: The archive, ``NAME.mfz``. An existing archive is replaced after the new archive is
            complete.
        given: The options. ``includes``: patterns of more files, relative to the graph. ``lock``: a
            ``requirements.lock``, or None for the versions that are installed here.
        extras: Extras of modelflow in addition to those that the units need.
        notes: Receives notes for the user.

    Returns:
        The manifest of the archive.

    Raises:
        ConfigError, GraphError, PlanError: The graph has mistakes or cannot be packed, or the
        archive cannot be written.
    """
    import modelflow
    from modelflow.archive.manifest import LOCK, Manifest
    from modelflow.archive.requirements import (
        distributions_of,
        list_supported_python,
        lock_requirements,
        read_lock,
    )
    from modelflow.archive.write import check_target, write_archive
    from modelflow.config.variables import mask_value
    from modelflow.errors import ConfigError
    from modelflow.flow import Flow
    from modelflow.graph.archive_parts import bake, parts_of
    from modelflow.graph.signature import signature_of

    check_target(target)
    graph = choice.read(check_devices=False)
    parts = parts_of(graph, given["includes"], target)
    if LOCK in parts.files:
        raise ConfigError(
            f"{parts.files[LOCK]}: has the name of an archive's own list; give it as --lock"
        )
    needs = tuple(sorted({*parts.extras, *extras}))
    packages, unknown = distributions_of(parts.imports)
    notes += parts.notes
    notes += [
        f"{name!r} is imported, but is neither a file next to the graph nor installed here. It "
        "is not in requirements.lock"
        for name in sorted(unknown)
    ]
    environment = choice.environment
    overrides, args = bake(
        graph, {**environment.overrides, **choice.overrides}, {**environment.args, **choice.args}
    )
    notes += [
        f"{name}: its value is in the archive, in clear text. Give a secret where the archive runs"
        for name, value in sorted({**overrides, **args}.items())
        if mask_value(name, value) != value
    ]
    signature = signature_of(graph, Flow(graph, threads=0).scheduler)
    manifest = Manifest(
        modelflow=modelflow.__version__,
        python=list_supported_python(),
        name=graph.name,
        graph=parts.graph,
        files={},
        overrides=overrides,
        args=args,
        inputs=tuple(map(_port, signature.inputs)),
        outputs=tuple(map(_port, signature.outputs)),
        extras=needs,
        packages=tuple(sorted(packages)),
        modules=parts.modules,
    )
    lock = given["lock"]
    text = lock_requirements(needs, packages) if lock is None else read_lock(lock)
    done = [0]
    # each file is read, and then written
    total = 2 * sum(path.stat().st_size for path in parts.files.values()) / 2**20

    def add(count: int) -> None:
        done[0] += count

    def line() -> str:
        share = min(1.0, done[0] / 2**20 / total) if total else 1.0
        return f"packing {target.name}: {share:.0%} of {total / 2:.0f} MiB"

    with nullcontext() if given.get("quiet") else show_if_slow(line):
        return write_archive(target, manifest, {**parts.files, LOCK: text}, add)


def _port(port: "GraphPort") -> dict[str, Any]:
    from modelflow.wire.tensor import datatype_of

    found: dict[str, Any] = {"name": port.name, "batched": port.is_batched}
    if port.tensor is not None:
        found["datatype"] = datatype_of(port.tensor.dtype)
        if port.tensor.shape is not None:
            found["shape"] = list(port.tensor.shape)
    if port.description:
        found["description"] = port.description
    if port.labels:
        found["labels"] = list(port.labels)
    return found


def _print(manifest: "Manifest", path: Path, digest: str | None, as_json: bool) -> None:
    from modelflow.config.variables import format_setting, mask_value

    if as_json:
        fields = manifest.fields()
        for key in ("overrides", "args"):
            fields[key] = {name: mask_value(name, value) for name, value in fields[key].items()}
        click.echo(json.dumps(fields, indent=2, sort_keys=True))
        return
    for name, file in sorted(manifest.files.items() if digest else ()):
        click.echo(f"{file.sha256[:12]} {file.size:>12} {name}")
    for side, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        for port in ports:
            shape = "" if "shape" not in port else f" {port['shape']}"
            click.echo(f"{side} {port['name']}: {port.get('datatype', 'any type')}{shape}")
    for option, values in (("--set", manifest.overrides), ("--arg", manifest.args)):
        for name, value in sorted(values.items()):
            click.echo(f"{option} {format_setting(name, value)}")
    needs = [*(f"modelflow[{extra}]" for extra in manifest.extras), *manifest.packages]
    click.echo(f"needs Python {manifest.python}{''.join(f', {name}' for name in needs)}")
    said = "" if digest is None else f", all as they were packed (sha256 {digest})"
    click.echo(
        f"{path}: {manifest.name}: {len(manifest.files)} files, {manifest.size} bytes, "
        f"modelflow {manifest.modelflow}{said}"
    )


_DAY = 86400.0


@click.group()
def cache() -> None:
    """Lists and removes cached archives. The cache holds the archives that a cluster received, and
    the folders of unpacked archives. It is in $MODELFLOW_CACHE, or ~/.cache/modelflow.

    \b
    modelflow cache list
    modelflow cache prune --size 10GiB
    modelflow cache prune --days 30
    """


@cache.command("list")
def list_cache() -> int:
    """Lists the entries of the cache, the last used entry first."""
    from modelflow.archive.cache import list_copies
    from modelflow.archive.unpack import cache_folder

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
    "--size", type=read_size, metavar="SIZE", help="Maximum size of the remaining entries: 10GiB."
)
@click.option(
    "--days", type=FiniteRange(0), help="Remove only entries without a new user for so many days."
)
def prune(size: float | None, days: float | None) -> int:
    """Removes the least recently used entries, but no entry that a process uses.

    Without an option it removes all entries.
    """
    from modelflow.archive.cache import prune as pruned
    from modelflow.archive.unpack import cache_folder

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
