"""Many inputs through a flow: files and lines in, results and errors out, resumable."""
