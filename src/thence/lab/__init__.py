"""Experiments as data, and what carries them out: simulated, or as processes.

A scenario file (scenarios.py) becomes a list of plans (plan.py), a plan becomes a run folder
(modes.py has the ways), and runs.py goes through the list.  What becomes of the folders is up to
whoever called: the check, the metrics and the report are the command line's to join.
"""
