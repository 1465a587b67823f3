"""Where jobs are kept. `protocol` is the contract; each other module or folder is one store that keeps it."""
