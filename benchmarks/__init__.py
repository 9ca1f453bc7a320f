"""Costs, measured: ratios of CPU time, everything to be compared interleaved in one run."""
