"""How values of each kind are written as JSON and read back, composed once from annotations."""
