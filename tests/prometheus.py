"""Metrics as Prometheus reads them."""

__all__ = ["samples_of"]


def samples_of(text):
    """Returns every sample of a page: (name, labels in order) -> value."""
    # Imported here because some test environments lack the package.
    from prometheus_client.parser import text_string_to_metric_families

    def written(name):
        # The parser adds "_total" to the names of counters that do not end so.
        return name if name in text else name.removesuffix("_total")

    return {
        (written(sample.name), *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
