"""Models at URLs: their files are listed at each scan, and copied into a cache before a load.

Input is the URL of a `RemoteSource`: ``s3://``, ``gs://`` (``buckets.py``), ``hf://``
(``hugging_face.py``), ``https://`` (``web.py``) or ``oci://`` (``registry.py``). The output is a
local path for ``modelflow.serve.repository``.

A scan reads only names, sizes and identities of files (`Listing`). `SourceCache` writes them as an
outline: a folder with the same names, in which only graphs and small descriptions have contents.
The repository finds models and versions in the outline by the code for paths. The load of a version
asks its `RemoteCopy` for the files. The key of a copy is the hash of the URL and of the identities.
An unchanged version is therefore copied once.

The folder of the cache belongs to the user. Each process holds the copies that it serves, and a
file lock lets one process copy while the others wait. Files are written aside, verified, renamed.
"""
