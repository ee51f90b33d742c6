"""The statistics of a model for ``/v2/models/NAME/stats`` and ``ModelStatistics``."""

from typing import Any

from modelflow.serve.metrics.snapshot import ModelSnapshot

_NANOSECONDS = 1e9


def inference_statistics(figures: ModelSnapshot) -> dict[str, Any]:
    """Returns the statistics of a model with the field names of ``inference.ModelStatistics``."""
    answered, refused = figures.answered, sum(figures.refused.values())
    failed = sum(figures.outcomes.values()) - answered + refused
    waiting, compute = figures.split_seconds()
    batches = figures.batches.items()
    return {
        "name": figures.name,
        "version": str(figures.version),
        "last_inference": int(figures.last * 1e3),
        "inference_count": figures.rows,
        "execution_count": figures.executions,
        "inference_stats": {
            "success": _duration(answered, figures.seconds),
            "fail": _duration(failed, figures.failed_seconds),
            "queue": _duration(answered, waiting),
            "compute_input": _duration(answered, 0.0),
            "compute_infer": _duration(answered, compute),
            "compute_output": _duration(answered, figures.answer_seconds),
            "cache_hit": _duration(figures.cache_hits, 0.0),
            "cache_miss": _duration(figures.cache_misses, 0.0),
        },
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": _duration(count, 0.0),
                "compute_infer": _duration(count, seconds),
                "compute_output": _duration(count, 0.0),
            }
            for size, (count, seconds) in batches
        ],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": int(seconds * _NANOSECONDS)}
