"""Graph files: text in any accepted format -> frozen values that know where they were written."""
