"""Workers on a Redis server; contended claims; how long scripts block the server; memory."""
