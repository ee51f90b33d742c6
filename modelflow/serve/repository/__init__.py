"""The model repository: finds, loads and unloads the models of a server and their versions.

Inputs are a `ServeConfig` (names with paths, folders of models, a ``models.config``), the disk, and
requests of clients to load, unload or reconfigure. The output is `Models`: the available versions
by name, version and label, with their states.

`RepositoryPoller` scans the disk. `Repository` passes to each `VersionManager` the wanted
`ModelVersion`s of its model. `reconcile` (pure, in ``states.py``) compares the wanted versions with
the running ones, and returns actions. The manager runs the actions on threads of the `Loader`.
`Repository` is the interface for the server. Everything except scanning, loading and unloading is
for the server's thread.
"""
