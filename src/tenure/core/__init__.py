"""Values and rules of jobs: pure code, without I/O, clock or randomness."""
