"""Archives (``NAME.mfz``): a graph with all that it is made of, verified before it is used."""
