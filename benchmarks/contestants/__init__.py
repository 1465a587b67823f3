"""The contestants: implementations of the same queue."""
