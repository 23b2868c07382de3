"""Sites that keep their data, brought together by NVIDIA FLARE."""
