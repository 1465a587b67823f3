"""Tables of the user's own: the same claim over rows that are there already."""
