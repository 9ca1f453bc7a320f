"""The causality check on Spark: tasks over logs, no replay, no shuffle of events.

survey   which file holds which log (Parquet footers; other files are decoded at once)
scan     one task per log: read it, index it, keep the index and its vectors
judge    one task per log: every rule, with the vectors of the others read from where they are kept
check    the driver: plans, runs the stages, puts the verdict together

Everything but ``tasks.py`` and ``check.py`` is free of Spark.
"""
