"""Code that several stores share."""
