"""The protocols: pure steps behind one Protocol, one file each, listed in registry.py."""
