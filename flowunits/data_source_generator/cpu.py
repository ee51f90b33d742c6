"""``data_source_generator`` on the CPU."""

import json

from flowunits.data_source_generator import DataSourceGeneratorOptions
from modelflow import Buffer, Context, FlowUnit


class DataSourceGenerator(FlowUnit):
    """Emits one buffer."""

    def open(self, config: DataSourceGeneratorOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Emits the description."""
        options = self._options
        described = {
            "source_type": options.source_type,
            "url": options.url,
            "url_type": options.url_type,
        }
        ctx.emit([Buffer(json.dumps(described), {"source_type": options.source_type})])
        ctx.finish()
