"""Names of files that several processes of a federation know."""

SETTINGS = "pdmm.json"  # in a job: settings of the run; in a site's kit: its problem
POLICY = "policy.toml"  # in a site's kit
