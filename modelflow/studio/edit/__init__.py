"""The editor: a graph file as a picture in a browser, and back."""
