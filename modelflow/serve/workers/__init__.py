"""Several processes that read and write requests, before one in which all models run."""
