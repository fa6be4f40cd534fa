"""The one training loop and its parts: peers, checkpoints, normalisation, metrics, FLOPs, parameter counts."""
