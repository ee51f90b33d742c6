"""What a server serves: models and their versions, how they come, and how they go.

In come a `ServeConfig` (what is asked for: names with paths, folders of models, a
``models.config``), the disk, and what clients ask: load, unload, another configuration.
Out come `Models`: the versions that answer, by name, version and label, and the state of each.

`RepositoryPoller` looks at the disk, and `Repository` gives each `VersionManager` the
`ModelVersion`s that are wanted of its model. `reconcile` (pure, in ``states.py``) compares them
with what runs and returns actions; the manager carries them out on the threads of the `Loader`.
`Repository` is all of it, as the server knows it. Everything but loading, looking and unloading is
for the server's thread.
"""
