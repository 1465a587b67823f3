"""The description of a user's table."""
