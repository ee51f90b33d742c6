"""Several processes behind one port: replicas, workers, and their supervisor."""
