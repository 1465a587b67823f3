"""The memory store: jobs in the memory of this process. It is the reference for all other stores."""

from tenure.backends.memory.backend import Memory, open_memory

__all__ = ["Memory", "open_memory"]
