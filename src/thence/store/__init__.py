"""A multi-master store over one group, spoken to in the protocol of Redis (RESP2 and RESP3)."""
