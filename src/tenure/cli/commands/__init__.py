"""The commands, one module a group. A module is imported when its command is used."""
