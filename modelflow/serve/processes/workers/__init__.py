"""Workers: processes that read and write requests, before one that runs all models."""
