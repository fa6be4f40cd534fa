"""The same tries for every model, each of the same budget, judged by samples that were held out from train."""
