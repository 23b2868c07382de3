"""Fig. 1: Inexact FedSplit stalls from its own start, and converges from x_s."""

from pdmm.paper.jobs import Job, run_least_squares

KS = (1, 3)


def jobs(quick: bool) -> list[Job]:
    """Both starts, for K = 1 and 3. The paper does not state gamma and eta: these are ours.

    gamma = 1/(n - d), which is 1/sqrt(L mu) for such random data; eta = 5e-5, the smaller of
    the step sizes of Fig. 2 (ten times that on the quick problem, whose L is a tenth).
    """
    samples, features = (500, 50) if quick else (5000, 500)
    return [
        Job(
            {
                "experiment": "fig1",
                "problem": {
                    "clients": 25,
                    "samples": samples,
                    "features": features,
                    "seed": 0,
                },
                "method": "Inexact FedSplit",
                "settings": {
                    "gamma": 1 / (samples - features),
                    "step_size": 0.25 / samples,
                    "local_steps": K,
                    "start": start,
                },
                "rounds": 100,
            },
            cost=100 * 25,
            run=run_least_squares,
        )
        for K in KS
        for start in ("anchor", "server")
    ]
