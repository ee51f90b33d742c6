"""The command line: arguments and terminal output over the public API."""
