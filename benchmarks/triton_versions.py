"""Which versions of Triton compile the kernels of Neural-HSS:  python benchmarks/triton_versions.py 3.4.0 3.5.0

Each version is installed without its dependencies into a folder of its own (``--keep DIR`` keeps them for the next
time) and compiles one step's launches for sm_80, float64 and float32, in a process that sees that folder first. Needs
pip and a package index, and no GPU. The table it prints is the reason for the bound of the extra ``kernels``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = ["3.0.0", "3.1.0", "3.2.0", "3.3.1", "3.4.0", "3.5.0", "3.6.0", "3.7.1"]

# Before 3.3 constants are no part of a signature and hints have another form: launches are compiled without hints.
CHILD = """
import json, sys, torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from pdebench_hss_models.neural_hss.triton import report as triton_report

def build(one):
    if tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 3):
        return triton_report.build(one, 80)
    types = {torch.float32: "*fp32", torch.float64: "*fp64"}
    constants = {**one.constants, **{name: None for name, value in one.arguments.items() if value is None}}
    signature = {
        name: types[value.dtype] if isinstance(value, torch.Tensor) else "i32"
        for name, value in ((name, one.arguments.get(name)) for name in one.kernel.arg_names) if name not in constants
    }
    options = {"num_warps": one.warps, "num_stages": one.stages}
    source = ASTSource(one.kernel, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)

found = {"version": triton.__version__}
for name in ("float64", "ieee"):
    launches = list(triton_report.launches(*triton_report.ARITHMETIC[name]))
    compiled, reason = 0, ""
    for case, one in launches:
        try:
            build(one)
            compiled += 1
        except Exception as error:
            cause = error.__cause__ or error
            reason = reason or f"{type(cause).__name__}: {cause}".strip().splitlines()[0]
    found[name] = {"compiled": compiled, "of": len(launches), "reason": reason}
print(json.dumps(found))
"""


def install(version: str, folder: Path) -> None:
    if not (folder / "triton").is_dir():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*command, f"triton=={version}"], check=True)


def compile_with(folder: Path, scratch: Path) -> dict:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(folder), "TRITON_CACHE_DIR": str(scratch)}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"reason": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--keep", help="folder of installed versions, one sub-folder each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(options.keep or scratch)
        print("| Triton | float64 | float32 | reason |\n|---|---|---|---|")
        for version in options.versions:
            install(version, root / version)
            found = compile_with(root / version, Path(scratch) / f"cache-{version}")
            cells = [f"{found[a]['compiled']} of {found[a]['of']}" if a in found else "-" for a in ("float64", "ieee")]
            reason = found.get("reason") or found["float64"]["reason"] or found["ieee"]["reason"]
            print(f"| {version} | {cells[0]} | {cells[1]} | {reason} |", flush=True)


if __name__ == "__main__":
    main()
