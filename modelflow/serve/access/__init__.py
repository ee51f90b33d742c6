"""What every request passes first: id, key, route, access log, CORS, TLS."""
