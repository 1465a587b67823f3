"""The whole worker: draining a backlog, and latency from enqueue to handler; compared with the store alone."""
