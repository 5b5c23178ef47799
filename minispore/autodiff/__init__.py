"""Gradients, in both modes.

tape.py       PyNative: records the calls, then goes back over them
transform.py  graphs: J, which makes a forward and a backward graph of a graph (with nodes.py,
              sweep.py: one graph; loops.py: While)
api.py        what users call: grad, value_and_grad, GradOperation
jacobian.py   and vjp, jvp, jacrev, jacfwd
"""
