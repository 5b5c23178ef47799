"""Hand-written pieces of kernels: what generated code calls."""
