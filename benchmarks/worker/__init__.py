"""The whole worker, from a backlog to nothing due, and from an enqueue to the handler; beside what it stands on."""
