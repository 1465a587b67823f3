"""What a worker needs to be run as a service: health that others can ask for, word to systemd, and logs."""
