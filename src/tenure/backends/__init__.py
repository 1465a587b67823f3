"""The stores. `protocol` is their contract; each folder implements a store, and `shared` holds the common parts."""
