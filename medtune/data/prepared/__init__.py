"""Prepared folders: how raw files become one, what lies in it, and how it is read."""
