"""`ModelBoxEngine`: a graph that is described while the program runs."""
