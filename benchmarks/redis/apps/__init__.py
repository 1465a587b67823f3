"""The applications whose workers are measured: each as its users write it, for the server that it is told."""
