"""What happens at a node, in words for its operator: connections, and runs that begin and end."""

import time
from collections.abc import Callable

from pdmm.flare.node import Node
from pdmm.flare.node_record import Job, Record, is_connected, jobs_of, node_process

LOOK = 0.5  # seconds between two looks at a node
SURE = 3  # looks in a row without a connection, after which it counts as lost


class Events:
    """Says what is new at a node since it was looked at last.

    Args:
        node: the site or the server.
        record: of its process.
        tell: takes a sentence.
    """

    def __init__(self, node: Node, record: Record, tell: Callable[[str], object]) -> None:
        self.node = node
        self.record = record
        self.tell = tell
        self.jobs: dict[str, Job] = {}
        self.connected = False
        self._without = 0

    def look(self) -> None:
        """Look at the node, and tell what is new."""
        if self.node.is_site:
            self._link(is_connected(self.record, self.node))
        now = {job.number: job for job in jobs_of(self.record, self.node.kit)}
        for number, job in now.items():
            if number not in self.jobs:
                self.tell(f"run {job.run} began, asked for by {job.by}")
        for number, job in self.jobs.items():
            if number not in now:
                self.tell(f"run {job.run} ended")
        self.jobs = now

    def _link(self, connected: bool) -> None:
        """A connection that is renewed at once is no news."""
        if connected and not self.connected:
            self.tell(f"connected to {self.node.server}")
        self._without = 0 if connected else self._without + 1
        if connected:
            self.connected = True
        elif self.connected and self._without >= SURE:
            self.connected = False
            self.tell(f"the connection to {self.node.server} is lost; it is being sought again")

    def follow(self) -> None:
        """Look again and again, until the node ends."""
        while node_process(self.record) is not None:
            self.look()
            time.sleep(LOOK)
