"""Connections of the caller's own, one small adapter a driver: statements that join the caller's transaction."""
