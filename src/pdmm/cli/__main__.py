"""``python -m pdmm.cli`` is the command ``pdmm``."""

from pdmm.cli.app import main

main()
