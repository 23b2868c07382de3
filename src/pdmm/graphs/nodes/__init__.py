"""What the nodes do: minimise f_i(x) + rho/2 sum_j ‖B_{i|j} x - z_{j|i}‖², stacked.

With G_i = sum_j B_{i|j}'B_{i|j} and r_i = sum_j B_{i|j}'z_{j|i} this is f_i(x) + rho/2 x'G_i x
- rho r_i·x up to a constant. Functions of a kind form a group, whose factors are made once.
"""
