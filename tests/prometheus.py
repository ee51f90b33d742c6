"""Metrics as Prometheus reads them."""

__all__ = ["samples_of"]


def samples_of(text):
    """Every sample of a page: (name, labels in order) -> value."""
    # Here, since some environments of the tests lack the package.
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
