"""A reliable carrier of messages over datagrams: the point-to-point layer, pure.

Nothing here does IO or reads a clock: datagrams and the time come in, datagrams and messages come
out.  ``reliable`` has the protocol of one connection, ``cookie`` the door before it, ``datagram``
the layout of what is on the wire.
"""
