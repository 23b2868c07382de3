"""Speed and memory, measured against plain NumPy in the same process."""
