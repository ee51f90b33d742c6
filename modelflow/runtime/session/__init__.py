"""One session: its segments, its progress, its results, and its bound on rows in flight."""
