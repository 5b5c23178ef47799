"""What shows a compiled program: reports, its kernels, its memory, its time, its run step by step.

``ms.explain`` and ``ms.Report`` are the way in (``report.py``). Nothing here is needed to compute.
"""
