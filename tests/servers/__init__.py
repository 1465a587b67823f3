"""Real servers for the tests, with nothing installed but the wheels of `requirements/test.txt`.

As root or not. Where a server cannot be had so, `TEST_POSTGRES_DSN` and `TEST_REDIS_URL` each name one to share (as a
URL), and `TEST_PG_BIN` a folder of PostgreSQL's programs.
"""
