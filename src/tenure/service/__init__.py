"""Run a worker as a service: health endpoints, systemd notifications, and logs."""
