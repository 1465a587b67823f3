"""Codecs that convert values of annotated types to JSON and back."""
