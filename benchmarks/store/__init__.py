"""The store against a server that does nothing else: requests a second, and CPU time of each."""
