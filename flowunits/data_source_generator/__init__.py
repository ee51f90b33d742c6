"""``data_source_generator``: emits the description of a data source, as JSON."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Source, option


@dataclass(frozen=True)
class DataSourceGeneratorOptions:
    """The options of ``data_source_generator``."""

    url: str = option(help="The address: a file, or rtsp://, http://, ...", is_path=True)
    source_type: Literal["url"] = option("url", help="The kind of the source.")
    url_type: Literal["file", "stream"] = option(
        "file",
        help="file: the source has an end. stream: the source is opened again after it ends or "
        "breaks off.",
    )


SPEC = FlowUnitSpec(
    name="data_source_generator",
    devices={"cpu": "flowunits.data_source_generator.cpu:DataSourceGenerator"},
    outputs=(
        Port(
            "out_data",
            "JSON text: an object with source_type, url and url_type; meta source_type",
        ),
    ),
    options=DataSourceGeneratorOptions,
    kind=Source(opens_sessions=True),
    description="Emits the description of a data source once, for data_source_parser.",
    group="Input",
    refuses_with=ValueError,
)
