"""What is proven of the methods, as numbers: rates, bounds, and runs to hold against them."""

from pdmm.theory.bounds import fedsplit_bound, theorem2_bound
from pdmm.theory.exact_rate import ExactRate, best_rho, pdmm_rate
from pdmm.theory.rates import Theorem1, best_gpdmm, gpdmm_rate
from pdmm.theory.split_traces import ExactTrace, FedSplitTrace, trace_fedsplit, trace_pdmm
from pdmm.theory.traces import Theorem1Trace, Theorem2Trace, trace_theorem1, trace_theorem2

__all__ = [
    "ExactRate",
    "ExactTrace",
    "FedSplitTrace",
    "Theorem1",
    "Theorem1Trace",
    "Theorem2Trace",
    "best_gpdmm",
    "best_rho",
    "fedsplit_bound",
    "gpdmm_rate",
    "pdmm_rate",
    "theorem2_bound",
    "trace_fedsplit",
    "trace_pdmm",
    "trace_theorem1",
    "trace_theorem2",
]
