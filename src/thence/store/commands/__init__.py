"""The commands of the store, one module for each kind; ``COMMANDS`` has them all by name.

base.py says what a command is.  ``COMMANDS`` is made in registry.py, which knows every module.
"""
