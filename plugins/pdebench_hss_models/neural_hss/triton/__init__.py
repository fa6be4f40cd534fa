"""The collapsed form as Triton kernels for NVIDIA GPUs. Importing `layer` does not import Triton."""
