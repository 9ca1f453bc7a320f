"""``python -m thence`` is the ``thence`` command."""

import sys

from thence.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
