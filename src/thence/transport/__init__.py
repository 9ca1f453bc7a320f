"""Carriers of frames between nodes: one file each, in ``TRANSPORTS`` (registry.py)."""
