"""``python -m tests.fuzz``: see ``--help``, and "Fuzzing" in CONTRIBUTING.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does: tests/ has twins and builders

from fuzz.command import main

sys.exit(main())
