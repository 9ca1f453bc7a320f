"""The causality check on Spark: tasks over logs, no replay, no shuffle of events.

pieces   which file holds which log (Parquet footers; other files are decoded at once)
scan     one task per log: read it, index it, keep the index and its vectors
judge    one task per log: every rule, with the vectors of the others read from where they are kept
check    the driver: plans, runs the stages, puts the verdict together
spark    the same as people call it: a session, a folder to work in, tables of what was found

Everything but ``spark.py`` is free of Spark: ``check.py`` is given a ``Runner``
(pipeline/tasks.py), which may as well be a loop in this process.
"""
