"""pdebench-hss from Python, cell by cell: run it as a script, or open it as a notebook (VS Code, Jupytext).

python examples/python_api.py
"""

# %% [markdown]
# # Look at a task
# Samples come in physical units, made now if they are not in the cache.

# %%
import pdebench_hss as pb

SCALE = "smoke"  # seconds; "small" takes minutes

task = pb.load_task("heat_1d", scale=SCALE)
print("starts", task.train.inputs.shape, "trajectories", task.train.outputs.shape)
print("what a model is told:", task.task.grid, task.task.boundary, "rollout" if task.task.rollout else "steady")

# %% [markdown]
# # Run models on it
# It returns a board. The same call again runs only what is missing; options are those of `pdebench-hss run`.

# %%
board = pb.run(
    models=["neural_hss", "resnet", "resnet[width=16]", "linear", "mean"],
    tasks="heat_1d",
    scale=SCALE,
    seeds=2,
    out="boards/first",
)
print(board.results[["model", "seed", "status", "test_err", "params_real", "fit_seconds"]])

# %% [markdown]
# # The leaderboard
# Means over seeds, ranks, and skill: 0 is the best training-free baseline, 1 is a perfect model.

# %%
print(board)

# %% [markdown]
# # Twice the budget, compared with the first board
# Cell by cell, with an interval and a verdict: is the change real?

# %%
second = pb.run(
    models=["resnet", "linear"], tasks="heat_1d", scale=SCALE, seeds=2, out="boards/second", budget="steps=8"
)
print(board.compare(second).to_string(index=False))

# %% [markdown]
# # The record of one trial
# Everything that was measured, with the error of each test sample and the learning curve.

# %%
from pdebench_hss import Store  # noqa: E402

store = Store("boards/first")
record = next(record for record in store.all() if record.trial.model_label == "resnet")
arrays = store.samples(record.key)
print(record.trial.hparams, record.parameters, {name: array.shape for name, array in arrays.items()})
