"""Workers on one PostgreSQL server: from a backlog to nothing due, beside the statements alone, and enqueueing."""
