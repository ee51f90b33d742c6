"""Load on a flow or on a server: requests that are due, or clients that wait, and what it did."""
