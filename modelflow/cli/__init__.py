"""The command line: arguments and terminal output over the public API.

In: arguments, environment variables (``options/environment.py``), signals.
Out: calls of `modelflow.Flow`, `modelflow.job` and the servers; an `ExitCode`.

Each command is a file in a folder: ``run``, ``serve``, ``ray``, ``graph`` (graph files and
models), ``insight`` (running flows), ``release`` (deploy, pack, cache). ``options`` holds what
several commands share, ``terminal`` messages and progress. ``main.py`` lists all commands. No
module here knows `modelflow.runtime`.
"""
