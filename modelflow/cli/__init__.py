"""The command line: arguments and terminal output over the public API.

Input: arguments, environment variables (``options/environment.py``) and signals.
Output: calls of `modelflow.Flow`, of `modelflow.job` and of the servers, and an `ExitCode`.

Each command is a file in a folder: ``run``, ``serve``, ``ray``, ``graph`` (graph files and models),
``insight`` (running flows), ``release`` (deploy, pack, cache). ``options`` holds the options that
several commands share. ``terminal`` holds messages and progress. ``main.py`` lists all commands. No
module of this package imports `modelflow.runtime`.
"""
