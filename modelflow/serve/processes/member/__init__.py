"""The code inside a child process, which a `Server` uses as a member of a process group.

Inputs are the messages of the supervisor and the connections that it hands over. The output is the
activity of this process, for the supervisor. `ReplicaMember` is a whole server. `WorkerMember` has
no models. `ModelsMember` has models and answers only workers.
"""
