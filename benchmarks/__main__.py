"""Runs every benchmark in a process of its own, so that peak memory is its own too.

``python -m benchmarks softmax mpi`` runs some of them. ``mirror`` and ``hops`` look at the code
itself and not at its speed: each is run alone, if it is named, and takes options of its own.
"""

import subprocess
import sys

NAMES = (
    *("least_squares", "softmax", "many_clients", "shapes", "noticing", "network", "unreliable"),
    *("mpi", "flare", "secure", "study", "auto", "missing", "glm", "path", "big_table", "rounds"),
    *("doors", "torch"),
)
OF_THE_CODE = ("mirror", "hops")


def run(name: str, *options: str) -> None:
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] in OF_THE_CODE:
        run(*words)
    else:
        for name in words or NAMES:
            if name not in NAMES:
                known = ", ".join((*NAMES, *OF_THE_CODE))
                sys.exit(f"no benchmark {name!r}; there are {known}")
            run(name)
