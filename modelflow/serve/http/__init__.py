"""The handler of HTTP requests, and the pages beside the protocols."""
