"""The command ``modelflow model``: shows the inputs, the outputs and the speed of a model."""

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.output_files import write_output
from modelflow.cli.options.parameters import declare_repeated
from modelflow.errors import EngineError, explain_os_error
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from modelflow.engine import LoadedModel, ModelFile
    from modelflow.engine.timing import BatchTime


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--engine",
    help="tensorflow, onnx, torch, openvino, a plug-in's engine, or module:Class for a "
    "PythonModel. Default: by the file's form.",
)
@click.option("--signature", help="The signature of a SavedModel.")
@declare_repeated("--input", "inputs", "NAME", "An input; repeatable.")
@declare_repeated("--output", "outputs", "NAME", "An output; repeatable.")
@click.option("--device", default="cpu", help="The device for the timing.")
@click.option("--batch-sizes", default="1,2,4,8,16", help="The batch sizes to time.")
@declare_repeated(
    "--shape",
    "shapes",
    "NAME=HxWxC",
    "The shape of one item, if the model leaves it open; repeatable.",
)
@click.option(
    "--seconds", type=click.FloatRange(0, 600), default=1.0, help="How long to time each size."
)
@click.option("--no-timing", is_flag=True, help="Do not run the model.")
@click.option(
    "--toml",
    "toml",
    type=click.Path(path_type=Path),
    help="Write the unit file to this path, and do not print it. The unit gets the file's name.",
)
@click.option("--force", is_flag=True, help="Overwrite the file of --toml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def model(path: Path, **options: Any) -> int:
    """Shows a model's ports, a unit file for the model, and the time of a batch.

    \b
    modelflow model resnet50.onnx
    modelflow model my_units/classify
    modelflow model saved_model --signature serving_default --no-timing
    modelflow model net.pt --shape features=3x224x224 --toml units/net/net.toml
    """
    from modelflow.engine import read_model_file
    from modelflow.engine.model_file import unit_text

    sizes = _sizes(options["batch_sizes"])
    shapes = dict(map(_shape, options["shapes"]))
    config = {"signature": options["signature"]} if options["signature"] else {}
    if path.is_dir() and any(path.glob("*.toml")):
        file = _of_unit(path)
    else:
        given = {name: options[name] for name in ("engine", "inputs", "outputs")}
        file = read_model_file(path, config=config, **given)
    target: Path | None = options["toml"]
    text = unit_text(file, target, options["device"].partition(":")[0])
    if target is not None:
        _write(target, text, options["force"])
    found: dict[str, Any] = {
        "path": str(path),
        "engine": file.engine,
        "bytes": _size(path),
        "inputs": [_port(port) for port in file.inputs],
        "outputs": [_port(port) for port in file.outputs],
        "toml": text,
    }
    if not options["as_json"]:
        _print(found, target)
    if not options["no_timing"]:
        found["timing"] = _timing(file, options, shapes, sizes)
    if options["as_json"]:
        click.echo(json.dumps(found, indent=2))
    return ExitCode.OK


def _timing(
    file: "ModelFile", options: dict[str, Any], shapes: dict[str, Any], sizes: list[int]
) -> list[dict[str, Any]]:
    from modelflow.engine.timing import batch_times, item_shapes, make_servable

    rows: list[dict[str, Any]] = []
    with _load(file, options["device"]) as loaded:
        try:
            known = item_shapes(loaded.inputs, shapes)
        except EngineError as error:
            if shapes:
                raise
            click.echo(f"not timed: {error} (--shape NAME=224x224x3)", err=True)
            return rows
        servable = make_servable(loaded, known)
        reason = servable.axes.reason if servable.axes is not None else ""
        show = (lambda _: None) if options["as_json"] else click.echo
        if reason:
            show(f"\ncalled one item at a time: {reason}")
        show("\nbatch    ms a batch    items/s    against the first")
        try:
            for time in batch_times(servable, known, sizes, options["seconds"]):
                row = _row(time, rows)
                rows.append(row)
                show(
                    f"{row['batch']:5}    {row['ms']:10.3f}    {row['items_per_second']:7.1f}"
                    f"    {row['ratio']:.2f}x"
                )
        except KeyboardInterrupt:  # the rows so far are printed already
            raise click.Abort from None
    return rows


def _of_unit(folder: Path) -> "ModelFile":
    """Returns the model of a unit folder, with the ports and options that its TOML declares."""
    from modelflow.engine.inference import InferenceUnit
    from modelflow.registry.folder import read_unit_folder

    spec = read_unit_folder(folder)
    unit = spec.create(next(iter(spec.devices)))
    if not isinstance(unit, InferenceUnit):
        raise click.ClickException(
            f"{folder}: unit {spec.name!r} runs no model; expected one of type inference"
        )
    return unit.model_file


def _row(time: "BatchTime", before: list[dict[str, Any]]) -> dict[str, Any]:
    rate = time.items_per_second
    return {
        "batch": time.size,
        "ms": time.seconds * 1e3,
        "items_per_second": rate,
        "calls": time.calls,
        "ratio": rate / before[0]["items_per_second"] if before else 1.0,
    }


def _load(file: "ModelFile", device: str) -> "closing[LoadedModel]":
    from modelflow.device import parse_devices, require_devices
    from modelflow.engine import LoadRequest
    from modelflow.engine.lookup import newest_path
    from modelflow.engine.options import options_with_defaults

    (first, *_) = parse_devices(device)
    require_devices((first,))
    engine = file.find_engine()
    request = LoadRequest(
        newest_path(file.path),
        first,
        options_with_defaults(engine.options, file.config)(),
        tuple(port.name for port in file.inputs),
        tuple(port.name for port in file.outputs),
    )
    return closing(engine.load(request))


def _print(found: dict[str, Any], target: Path | None) -> None:
    click.echo(f"{found['path']}: {found['engine']}, {found['bytes'] / 1e6:.1f} MB")
    for title in ("inputs", "outputs"):
        click.echo(f"\n{title}")
        width = max((len(port["name"]) for port in found[title]), default=0)
        for port in found[title]:
            click.echo(f"  {port['name']:{width}}  {port['dtype']:8}  {port['shape']}".rstrip())
        if not found[title]:
            click.echo("  none: called once for each item of the port 'trigger'")
    if target is None:
        click.echo("\nas a unit (NAME.toml in a folder of [driver] dir, next to the model)\n")
        click.echo("\n".join(f"    {line}".rstrip() for line in found["toml"].splitlines()))
    else:
        click.echo(f"\nwrote {target}")


def _port(port: Any) -> dict[str, str]:
    return {"name": port.name, "dtype": port.dtype or "any", "shape": port.shape or ""}


def _write(path: Path, text: str, is_forced: bool) -> None:
    if path.exists() and not is_forced:
        raise click.ClickException(f"--toml {path}: the file exists; --force overwrites it")
    with explain_os_error(f"--toml {path}: cannot make its folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_output("--toml", str(path), text.encode())


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]
    return sum(entry.stat().st_size for entry in files)


def _sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= 1 << 16 for part in parts):
        raise click.BadParameter(
            f"got {text!r}; expected numbers from 1 to 65536 such as 1,2,4,8",
            param_hint="--batch-sizes",
        )
    return [int(part) for part in parts]


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, extents = text.rpartition("=")
    parts = [part for part in extents.split("x") if part] if extents else []
    if not equals or not all(part.isdecimal() and len(part) < 7 for part in parts):
        raise click.BadParameter(f"got {text!r}; expected NAME=224x224x3", param_hint="--shape")
    return name, tuple(map(int, parts))
