"""In which order an inbox hands out what is ready: pure, without locks or threads."""
