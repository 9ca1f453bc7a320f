"""Experiments as data, and what carries them out: simulated, as processes, or on many machines.

A scenario file (scenarios.py) becomes a list of plans (plan.py), a plan becomes a run folder
(modes.py has the ways), and run.py goes through the list.  What becomes of the folders is up to
whoever called: the check, the metrics and the report are the command line's to join.
"""
