"""Who is measured: each makes the same queue in its own way."""
