"""Proxies between clients and a server that break connections at chosen messages, for any protocol."""
