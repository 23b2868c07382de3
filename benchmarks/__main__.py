"""Runs every benchmark in a process of its own, so that peak memory is its own too."""

import subprocess
import sys

NAMES = (
    *("least_squares", "softmax", "many_clients", "shapes", "network", "unreliable"),
    *("mpi", "flare", "auto"),
)

if __name__ == "__main__":
    chosen = sys.argv[1:] or NAMES
    for name in chosen:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
