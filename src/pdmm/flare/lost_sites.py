"""What can be said of a site whose process was lost: which one, and where to look."""

from collections import Counter
from collections.abc import Sequence


class LostSites:
    """Which sites were lost in which rounds, over all jobs of a run."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, int | None]] = Counter()

    def told(self, why: str, unanswered: Sequence[str], done: int | None) -> str:
        """Why a job failed, and more where the same happened before.

        Args:
            why: in words.
            unanswered: the sites that had been asked, and had not answered.
            done: how many rounds were done.
        """
        again = []
        for site in unanswered:
            self._times[site, done] += 1
            if self._times[site, done] > 1:
                again.append(site)
        if not again:
            return why
        names = ", ".join(again)
        return (
            f"{why}. That has happened before, with the same answer missing in the same "
            f"round: at site {names}, look at log.txt in its kit, and in the folder there of the "
            "job. A process ends so if its function calls os._exit, if a library crashes, or if "
            "the machine has no memory left"
        )


def in_words(unanswered: list[str], done: int | None) -> str:
    """Why a job was ended by FLARE.

    Args:
        unanswered: the sites that had been asked, and had not answered.
        done: how many rounds were done; None if the run was still being prepared.

    >>> print(in_words(["ben"], 7))
    FLARE ended the job: the process of a site was lost, or an admin aborted it (in round 8, only \
ben had not answered)
    """
    why = "FLARE ended the job: the process of a site was lost, or an admin aborted it"
    if not unanswered:
        return why
    when = "before the first round" if done is None else f"in round {done + 1}"
    return f"{why} ({when}, only {', '.join(unanswered)} had not answered)"
