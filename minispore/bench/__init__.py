"""``minispore bench``: the same workloads here and in other frameworks, timed in the same way.

    clock.py           one way to time a workload, for all scripts
    in_mindspore.py    the workloads in MindSpore's API: for minispore, and for MindSpore itself
    in_jax.py          in JAX
    in_torch.py        in PyTorch
    compare.py         runs these scripts in turn, each in a process of its own, and makes tables

    mlp_tiny     a training step: 2-16-16-2, 32 examples, Adam        the cost of calls
    mlp_mnist    a training step: 784-512-512-10, 64 examples, Adam   products of matrices
    gpt          a training step: 2 blocks, 64 wide, 8 x 64 tokens    a bit of everything
    gelu_1m      GeLU by tanh of a million numbers                    functions, element by element
    layernorm    4096 rows of 256, without gain and bias              reductions
    softmax      4096 rows of 256                                     both
    while_1000   Newton's method for a root, 1000 rounds              a loop that values decide

The scripts import nothing of this package: each runs in the environment of its framework.
"""
