"""The client: jobs, claims, tables, and the keeper of their leases."""
