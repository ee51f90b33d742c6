"""Archives (``NAME.mfz``): a graph with all its files, verified before use.

`modelflow.graph.archive_parts` names the files to pack. An archive is unpacked into a folder.

Members are stored, never compressed. The same files give the same bytes, and verification reads
each byte once. `Archive` refuses contents that another reader of zip files might understand
differently. `Manifest` is read without trust. Copies in the cache are named by the hash of all
their files (``unpack.py``). A lock of the system (`flock`) lets one process make a copy while
others wait.
"""
