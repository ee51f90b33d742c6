"""The traffic of a label: which version answers a request, and which versions get a copy.

Input is a `Split` of ``--label``. `Label` chooses a version for each request. `Shadows` sends
copies to the shadow versions, and discards their answers. `Models`, the table of the repository,
asks both.
"""
