"""Names of files that several processes of a federation know."""

SETTINGS = "pdmm.json"  # in a job: settings of the run; in a site's kit: its problem
POLICY = "policy.toml"  # in a site's kit
OUTCOME = "outcome.json"  # in a job's result: whether the run came to its end, or why it did not
