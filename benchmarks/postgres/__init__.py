"""Workers on a PostgreSQL server: draining a backlog, compared with the bare statements, and enqueueing."""
