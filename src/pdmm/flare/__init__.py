"""NVIDIA FLARE: kits, jobs and processes that carry the messages of a run between sites."""
