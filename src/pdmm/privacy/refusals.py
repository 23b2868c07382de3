"""What a site says to a question that its policy does not allow."""

SAID = "refused by policy"


class Refused(ValueError):
    """A site's policy does not allow a question. The reason is in the site's audit alone."""

    def __init__(self, said: str = SAID) -> None:
        super().__init__(said)


class Spent(Refused):
    """A site's policy allows no more answers: so many rounds, or numbers, and no more."""

    def __init__(self, said: str = f"{SAID}: it allows no more answers") -> None:
        super().__init__(said)


class Reason(Exception):
    """Why a question is refused, in words that stay at the site.

    Args:
        text: for the audit.
        counts: whether it counts among the refusals of the day.
        spent: whether no more than what is allowed was asked for already.
    """

    def __init__(self, text: str, counts: bool = True, spent: bool = False) -> None:
        super().__init__(text)
        self.counts = counts
        self.spent = spent
