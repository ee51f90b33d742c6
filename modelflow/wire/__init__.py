"""Between bytes and arrays, for protocols and models: pure, no file and no socket."""
