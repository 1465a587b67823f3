"""Claims over the rows of existing tables."""
