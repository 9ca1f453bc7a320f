"""The ``thence`` command: ``main`` and one file per subcommand, each loaded when it is called."""
