"""The terminal and the process: messages, progress, signals, addresses to listen at."""
