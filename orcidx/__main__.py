"""``python -m orcidx`` is the ``orcidx`` command."""

from orcidx.cli import main

main()
