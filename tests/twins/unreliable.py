"""Naive twins of the methods behind links that lose messages.

The protocol, client by client and message by message: a client numbers its uploads; the server
remembers the last number that it applied, acknowledges it, and states it with its next message; a
client that heard no acknowledgement keeps its draft beside its memory until then. Every client
holds its own copy of what was broadcast, and every rounded difference is applied where it arrives.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from pdmm.links.links import Contact
from twins.methods import Network, Vector

State = dict[str, Vector]
Guess = Literal["numbers", "arrived", "lost"]
Steps = Callable[[int, int], int]

NUMBER = 8  # bytes of a sequence number
SCALE = 4  # bytes of a rounded vector's scale


def rounded(v: Vector, bits: int | None) -> Vector:
    """What arrives of a vector: its entries on a grid that its largest entry spans."""
    largest = max(abs(float(entry)) for entry in v)
    if bits is None or largest == 0:
        return v.copy()
    most = 2 ** (bits - 1) - 1
    step = float(np.nextafter(np.float32(largest / most), np.float32(np.inf)))
    return np.array([round(float(entry) / step) * step for entry in v])


def bytes_of(numbers: int, bits: int | None, item: int = 8) -> int:
    """Bytes of a vector, with its scale where it is rounded."""
    if bits is None:
        return numbers * item
    return -(-numbers * bits // 8) + SCALE


class Twin(Protocol):
    """A method, for one client at a time."""

    def server_start(self, net: Network) -> State: ...

    def message(self, server: State) -> State: ...

    def client_start(self, net: Network) -> State: ...

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        """The upload, and what else the client would remember."""
        ...

    def accept(self, memory: State, more: State, upload: State, message: State) -> State: ...

    def server(
        self, net: Network, server: State, message: State, uploads: dict[int, State]
    ) -> State: ...


@dataclass
class Family:
    """PDMM, GPDMM (mean or last iterate) and AGPDMM."""

    rho: float
    eta: float | None = None
    start: Literal["server", "own"] = "server"
    iterate: Literal["last", "mean"] = "last"
    relaxation: float = 1.0

    def server_start(self, net: Network) -> State:
        x = net.server_prox(net.x0, 1 / (self.rho * net.total_weight))
        return {"z": net.x0.copy(), "x": x}

    def message(self, server: State) -> State:
        return {"x": server["x"]}

    def client_start(self, net: Network) -> State:
        return {"z": net.x0.copy(), "x": net.x0.copy()}

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        x_s, rho = message["x"], self.rho
        lam_s = rho * (memory["z"] - x_s)  # lam_{s|i}
        if self.eta is None:
            x = last = net.prox(i, x_s - lam_s / rho, rho)  # eq. client_update
        else:
            last = {"server": x_s, "own": memory["x"]}[self.start]
            iterates = []
            for k in range(steps):
                slope = net.gradient(i, last, done + k) + rho * (last - x_s) + lam_s
                last = last - slope / (1 / self.eta + rho)  # Alg. 1 and 2, line 7
                iterates.append(last)
            x = sum(iterates, 0 * last) / steps if self.iterate == "mean" else last
        lam = rho * (x_s - x) - lam_s  # lam_{i|s}
        return {"dz": self.relaxation * (x - lam / rho - memory["z"])}, {"x": last}

    def accept(self, memory: State, more: State, upload: State, message: State) -> State:
        return {"z": memory["z"] + upload["dz"], "x": more["x"]}

    def server(
        self, net: Network, server: State, message: State, uploads: dict[int, State]
    ) -> State:
        z = server["z"]
        for i, upload in uploads.items():
            z = z + net.weights[i] * upload["dz"] / net.total_weight
        return {"z": z, "x": net.server_prox(z, 1 / (self.rho * net.total_weight))}


@dataclass
class Scaffold:
    """SCAFFOLD, with one vector up or, as published, with two."""

    eta: float
    K: int
    both: bool
    eta_g: float = 1.0

    def server_start(self, net: Network) -> State:
        return {"x": net.x0.copy(), "c": np.zeros_like(net.x0)}

    def message(self, server: State) -> State:
        return {"x": server["x"], "c": server["c"]}

    def client_start(self, net: Network) -> State:
        return {"c": np.zeros_like(net.x0)}

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        x, c = message["x"], message["c"]
        for k in range(steps):  # eq. SCAFFOLD_client_update
            x = x - self.eta * (net.gradient(i, x, done + k) - memory["c"] + c)
        upload = {"dx": x - message["x"]}
        if self.both:
            new = memory["c"] - c + (message["x"] - x) / (steps * self.eta)
            upload["dc"] = new - memory["c"]
        return upload, {}

    def _change(self, upload: State, message: State) -> Vector:
        """c_i' - c_i, sent, or as it follows from dx and from the c that was sent."""
        if self.both:
            return upload["dc"]
        return -message["c"] - upload["dx"] / (self.K * self.eta)

    def accept(self, memory: State, more: State, upload: State, message: State) -> State:
        return {"c": memory["c"] + self._change(upload, message)}

    def server(
        self, net: Network, server: State, message: State, uploads: dict[int, State]
    ) -> State:
        weight = sum(net.weights[i] for i in uploads)
        x, c = server["x"], server["c"]
        for i, upload in uploads.items():
            x = x + self.eta_g * net.weights[i] * upload["dx"] / weight
            c = c + net.weights[i] * self._change(upload, message) / net.total_weight
        return {"x": x, "c": c}


@dataclass
class FedAvg:
    """The mean of those that arrived."""

    eta: float

    def server_start(self, net: Network) -> State:
        return {"x": net.x0.copy()}

    def message(self, server: State) -> State:
        return dict(server)

    def client_start(self, net: Network) -> State:
        return {}

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        x = message["x"]
        for k in range(steps):
            x = x - self.eta * net.gradient(i, x, done + k)
        return {"dx": x - message["x"]}, {}

    def accept(self, memory: State, more: State, upload: State, message: State) -> State:
        return memory

    def server(
        self, net: Network, server: State, message: State, uploads: dict[int, State]
    ) -> State:
        weight = sum(net.weights[i] for i in uploads)
        x = server["x"]
        for i, upload in uploads.items():
            x = x + net.weights[i] * upload["dx"] / weight
        return {"x": x}


@dataclass
class FedProx(FedAvg):
    """FedAvg with a pull towards x_s."""

    mu: float = 1.0

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        x = message["x"]
        for k in range(steps):
            x = x - self.eta * (net.gradient(i, x, done + k) + self.mu * (x - message["x"]))
        return {"dx": x - message["x"]}, {}


@dataclass
class FedDyn:
    """FedDyn: those that took part move h, by their share of all clients."""

    eta: float
    alpha: float

    def server_start(self, net: Network) -> State:
        return {"x": net.x0.copy(), "h": 0 * net.x0}

    def message(self, server: State) -> State:
        return {"x": server["x"]}

    def client_start(self, net: Network) -> State:
        return {"g": 0 * net.x0}

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        x = message["x"]
        for k in range(steps):
            slope = net.gradient(i, x, done + k) - memory["g"] + self.alpha * (x - message["x"])
            x = x - self.eta * slope
        return {"dx": x - message["x"]}, {}

    def accept(self, memory: State, more: State, upload: State, message: State) -> State:
        return {"g": memory["g"] - self.alpha * upload["dx"]}

    def server(
        self, net: Network, server: State, message: State, uploads: dict[int, State]
    ) -> State:
        weight = sum(net.weights[i] for i in uploads)
        x, h = server["x"], server["h"]
        for i, upload in uploads.items():
            x = x + net.weights[i] * upload["dx"] / weight
            h = h - self.alpha * net.weights[i] * upload["dx"] / net.total_weight
        return {"x": x - h / self.alpha, "h": h}


@dataclass
class Client:
    """What one client has."""

    memory: State
    draft: State | None = None  # of an upload of which it has not heard
    number: int = 0  # of its last upload
    steps: int = 0  # gradient steps so far
    held: State | None = None  # its copy of the broadcast
    heard: int = 0  # the round of its last download


@dataclass
class Run:
    """What came of it: a row a round."""

    x: list[Vector] = field(default_factory=list)
    z: list[list[Vector]] = field(default_factory=list)
    """What the clients' z are, or will be once they hear of their last uploads."""
    bytes_down: list[int] = field(default_factory=list)
    bytes_up: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    """Gradient steps that every client has taken."""


def run(
    net: Network,
    twin: Twin,
    contacts: Iterable[Contact],
    steps: Steps,
    bits: int | None = None,
    guess: Guess = "numbers",
    item: int = 8,
) -> Run:
    """Round after round. ``guess`` says what a client does that hears no acknowledgement."""
    d, result = len(net.x0), Run()
    server = twin.server_start(net)
    clients = [Client(twin.client_start(net)) for _ in range(net.m)]
    applied = [0] * net.m  # per client, the number of its last upload that was applied
    # What a client holds that heard everything: at first what all know, x0 (and c = 0).
    broadcast: State = {
        name: net.x0.copy() if name == "x" else 0 * net.x0 for name in twin.message(server)
    }
    for client in clients:
        client.held = {name: v.copy() for name, v in broadcast.items()}
    differences: list[State] = [{}]  # of round 0 (none), 1, 2, ...
    down = up = 0
    for r, contact in enumerate(contacts, start=1):
        message = twin.message(server)
        if bits is None:
            differences.append({})
            broadcast = {name: v.copy() for name, v in message.items()}
        else:
            moves = {name: rounded(v - broadcast[name], bits) for name, v in message.items()}
            differences.append(moves)
            broadcast = {name: broadcast[name] + moves[name] for name in message}
        uploads: dict[int, State] = {}
        flags = zip(contact.chosen, contact.heard, contact.arrives, contact.told, strict=True)
        for chosen, heard, arrives, told in flags:
            i = int(chosen)
            client = clients[i]
            # Down: the message, or the differences that this client missed, and a number.
            full, missed = bytes_of(d, None, item), (r - client.heard) * bytes_of(d, bits, item)
            by_differences = bits is not None and client.held is not None and missed < full
            down += (missed if by_differences else full) * len(message) + NUMBER
            if not heard:
                continue
            if by_differences and client.held is not None:
                for moves in differences[client.heard + 1 :]:
                    client.held = {name: client.held[name] + moves[name] for name in moves}
            else:
                client.held = {name: v.copy() for name, v in broadcast.items()}
            client.heard = r
            if client.draft is not None:  # the number in the message says which of the two holds
                if applied[i] == client.number:
                    client.memory = client.draft
                client.draft = None
            count = steps(r, i)
            made, more = twin.work(net, i, client.held, client.memory, count, client.steps)
            client.steps += count
            client.number += 1
            upload = {name: rounded(v, bits) for name, v in made.items()}
            up += bytes_of(d, bits, item) * len(upload) + NUMBER
            draft = twin.accept(client.memory, more, upload, client.held)
            if arrives:
                applied[i] = client.number
                uploads[i] = upload
            if (arrives and told) or guess == "arrived":
                client.memory = draft
            elif guess == "numbers":
                client.draft = draft
        if uploads:
            server = twin.server(net, server, broadcast, uploads)
        result.x.append(server["x"].copy())
        result.bytes_down.append(down)
        result.bytes_up.append(up)
        result.z.append(
            [
                (c.draft if c.draft is not None and applied[i] == c.number else c.memory).get(
                    "z", 0 * net.x0
                )
                for i, c in enumerate(clients)
            ]
        )
    result.steps = [c.steps for c in clients]
    return result
