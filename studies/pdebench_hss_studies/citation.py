"""The paper, for everything here that comes from it: its model, its tasks, its tables."""

NEURAL_HSS = """@misc{sittoni2026neuralhss,
  title         = {{Neural-HSS}: Hierarchical Semi-Separable Neural {PDE} Solver},
  author        = {Sittoni, Pietro and Zangrando, Emanuele and Casulli, Angelo Alberto and Guglielmi, Nicola and
                   Tudisco, Francesco},
  eprint        = {2602.18248},
  archivePrefix = {arXiv},
  url           = {https://arxiv.org/abs/2602.18248},
  year          = {2026}
}"""
