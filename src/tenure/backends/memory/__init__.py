"""Jobs in this process's memory: the reference that every other store is compared with."""

from tenure.backends.memory.backend import Memory, open_memory

__all__ = ["Memory", "open_memory"]
