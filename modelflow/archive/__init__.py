"""Archives (``NAME.mfz``): a graph with all files that it needs, verified before use.

In: names and bytes from `modelflow.graph.archive_parts`, or the path of an archive.
Out: an archive, or the folder that it was unpacked into.

Members are stored, never compressed: the same files give the same bytes, and verifying is reading
once. `Archive` refuses what another reader of zip files might understand differently. `Manifest` is
read without trust. Copies in the cache are named by the hash of all their files (``unpack.py``);
a lock of the system (`flock`) lets one process make a copy while others wait.
"""
