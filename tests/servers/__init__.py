"""Real servers for the tests, from the wheels of `requirements/test.txt`, as root or as another user.

`TEST_POSTGRES_DSN` and `TEST_REDIS_URL` (URLs) name shared servers to use instead, and `TEST_PG_BIN` a folder of
PostgreSQL programs.
"""
