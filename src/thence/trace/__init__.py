"""Traces: what nodes log, and the one-process check of what they logged.

record    one event, and what is known of a run (msgspec only: any node can load it)
tables    the same as Arrow columns
writer    a run folder, written while the run goes on
columns   a run in NumPy arrays, no Python object per event
segments  one file into columns; nothing malformed is dropped silently
reader    paths into runs
check     every rule of the trace reference over those columns
            numbering, index, vectors, replay, gathers: what the rules look things up in
            rules_*: the rules
verdict   what a check found; explain: why
"""
