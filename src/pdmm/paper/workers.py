"""Jobs side by side, each in a process of one core.

Two small runs on a core each finish sooner than one after the other on both: no thread waits
for another at every step. Each worker has a pipe of its own in place of a pool's shared queue, so
that it ends by itself when the command that began it was killed.
"""

import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from pdmm.common.threads import available

if TYPE_CHECKING:
    from pdmm.paper.jobs import Job
    from pdmm.paper.store import Columns


def side_by_side(
    jobs: Sequence["Job"],
    advance: Callable[["Job"], object],
    finish: Callable[["Job", "Columns"], object],
    workers: int | None = None,
) -> None:
    """Run jobs in as many processes as there are cores.

    Args:
        jobs: what to run; the first ones are begun first.
        advance: called after every round of a job.
        finish: called with a job and its columns when it is done.
        workers: how many processes; one for each core if not given.

    Raises:
        Exception: what a job raised. Nothing is left running.
    """
    context = get_context("spawn")
    count = min(workers or available(), len(jobs))
    waiting = list(jobs)[::-1]
    processes = []
    busy: dict[Connection, Job] = {}
    try:
        for i in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, i), daemon=True)
            process.start()
            theirs.close()  # so that a worker that died is seen as the end of its messages
            processes.append(process)
            busy[ours] = _give(ours, waiting)
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                job = busy[connection]
                try:
                    message = connection.recv()
                except EOFError:
                    raise RuntimeError(
                        f"the process that ran {job.parameters} ended unexpectedly: "
                        "was there enough memory?"
                    ) from None
                if message is None:
                    advance(job)
                elif isinstance(message, BaseException):
                    raise message
                else:
                    finish(job, message)
                    if waiting:
                        busy[connection] = _give(connection, waiting)
                    else:
                        del busy[connection]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _give(connection: Connection, waiting: list["Job"]) -> "Job":
    job = waiting.pop()
    connection.send(job)
    return job


def _serve(connection: Connection, number: int) -> None:
    """A worker: take jobs and send rounds (None), columns or an exception.

    If the other end is gone, sending fails and the worker ends with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other end is interrupted, and ends us
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[number % len(mine)]})

    def advance() -> None:
        connection.send(None)

    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        try:
            message: Any = job.run(job.parameters, advance)
        except OSError:  # of the connection
            return
        except Exception as error:
            message = error
        try:
            connection.send(message)
        except OSError:
            return
