"""The commands, one module a group; each is imported when it is used."""
