"""The simulator and its oracle: one seed drives clock, network and workload.

``cluster``   N nodes and their primitive steps; everything else is built on it
``checkers``  the oracle: brute force over explicit causal histories
``walk``      random interleavings of the primitive steps, without time
``explore``   every interleaving of a small world
``script``    a diagram as text; ``scene`` plays it
``run``       the same under virtual time, with delays, loss, slow links; writes a trace
"""
