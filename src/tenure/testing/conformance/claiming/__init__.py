"""Tests of claims: for every store, and for tables of the user."""
