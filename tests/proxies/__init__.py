"""Proxies between clients and a server that can be told to break, whatever is spoken through them."""
