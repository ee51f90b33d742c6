"""The inside of a child: what a `Server` is given where it is one of several.

In: what the supervisor says, and the connections that it hands over. Out: what this process is
doing, for the supervisor. `ReplicaMember` is a whole server; `WorkerMember` has no models, and
`ModelsMember` has models and answers workers alone.
"""
