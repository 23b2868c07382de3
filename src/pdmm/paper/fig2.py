"""Fig. 2: FedAvg, GPDMM, AGPDMM and SCAFFOLD on least squares, for K = 1 .. 20."""

from pdmm.paper.jobs import Job, run_least_squares

KS = (1, 3, 5, 10, 20)
METHODS = ("FedAvg", "GPDMM", "SCAFFOLD", "AGPDMM")
CLIENTS = (25, 500)
ROUNDS = 100


def sizes(quick: bool) -> tuple[int, int]:
    """Samples and features of a client.

    The quick version has a tenth of both, so that L is a tenth and the step sizes are ten
    times as large: the same curves but for the random numbers.
    """
    return (500, 50) if quick else (5000, 500)


def steps(quick: bool) -> tuple[float, float]:
    """The two step sizes: 5e-5 and 1e-4 at full size."""
    return (5e-4, 1e-3) if quick else (5e-5, 1e-4)


def jobs(quick: bool) -> list[Job]:
    """The paper's 80 curves; and AGPDMM with rho = n - d, which is sqrt(L mu) of such data."""
    samples, features = sizes(quick)

    def job(clients: int, method: str, settings: dict[str, float]) -> Job:
        problem = {"clients": clients, "samples": samples, "features": features, "seed": 0}
        parameters = {
            "experiment": "fig2",
            "problem": problem,
            "method": method,
            "settings": settings,
            "rounds": ROUNDS,
        }
        return Job(parameters, cost=ROUNDS * clients, run=run_least_squares)

    wanted = [
        job(clients, method, {"step_size": step, "local_steps": K})
        for clients in CLIENTS
        for step in steps(quick)
        for K in KS
        for method in METHODS
    ]
    rho = float(samples - features)
    extra = [
        job(CLIENTS[0], "AGPDMM", {"step_size": steps(quick)[1], "local_steps": K, "rho": rho})
        for K in KS
    ]
    return extra + wanted  # those on 25 clients stay together: one problem is held at a time
