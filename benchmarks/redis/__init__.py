"""Workers on one Redis server beside others; claims that contend; how long a script holds the server; memory."""
