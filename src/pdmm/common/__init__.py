"""What every room may use: checks, threads, teams, files, and values as JSON and arrays."""
