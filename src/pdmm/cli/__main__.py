"""``python -m pdmm.cli`` is the command ``pdmm``."""

from pdmm.cli.main import main

main()
