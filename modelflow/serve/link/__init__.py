"""What two processes of ours say one another: descriptors, messages, arrays in shared memory."""
