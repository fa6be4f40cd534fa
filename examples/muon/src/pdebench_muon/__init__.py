"""One network, two optimisers: AdamW (the core's) and Muon (its own). The optimiser is in `muon.py`."""

from __future__ import annotations

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

WIDTH = {"smoke": 8, "small": 24, "medium": 32, "paper": 64}


def hparams(task: TaskInfo, scale: str) -> dict[str, int]:
    return {"width": WIDTH[scale], "blocks": 3}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


def mixer(name: str, title: str, build: str, description: str, citation: str = "") -> ModelSpec:
    return ModelSpec(
        name=name,
        title=title,
        build=f"pdebench_muon.model:{build}",
        hparams=hparams,
        supports=supports,
        size_knob="width",
        description=description,
        citation=citation,
    )


MUON = """@misc{jordan2024muon,
  title  = {Muon: An optimizer for hidden layers in neural networks},
  author = {Jordan, Keller and Jin, Yuchen and Boza, Vlado and You, Jiacheng and Cesista, Franz and Newhouse, Laker and
            Bernstein, Jeremy},
  year   = {2024}
}"""


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [
        mixer("mixer", "Mixer", "Mixer", "Full matrices along each axis and across channels, with the core's AdamW."),
        mixer("mixer_muon", "Mixer, Muon", "MixerMuon", "The same network with Muon.", MUON),
    ]
