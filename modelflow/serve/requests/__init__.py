"""One request from arrays into a flow and back, the same for every protocol."""
