"""``data_source_generator``: the description of a data source, as JSON."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Source, option


@dataclass(frozen=True)
class DataSourceGeneratorOptions:
    """The options of ``data_source_generator``."""

    url: str = option(help="The address: a file, or rtsp://, http://, ...", is_path=True)
    source_type: Literal["url"] = option("url", help="What kind of source it is.")
    url_type: Literal["file", "stream"] = option(
        "file", help="file: it ends; stream: where it ends or breaks off, it is opened again."
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
    description="Gives the description of a data source once, for data_source_parser.",
    group="Input",
    refuses_with=ValueError,
)
