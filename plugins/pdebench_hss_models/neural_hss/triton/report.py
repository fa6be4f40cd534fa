"""What the compiler makes of the Triton kernels, without a GPU:  python -m pdebench_hss_models.neural_hss.triton.report

Every launch of a training step at sizes of the paper is compiled ahead of time for seven architectures with the tools
inside Triton's package. Counted in the machine code: registers of a thread, shared memory of a program, loads and
stores of local memory (spilled registers) and the instructions that do the arithmetic.

    FFMA, FFMA2, DFMA           multiply-adds in float32 (one; two on sm_100) and float64
    HMMA, HGMMA, UTCHMMA, DMMA  tensor cores: tf32, the same on sm_90 and sm_100, float64

The command fails unless nothing but `KNOWN_SPILLS` is spilled, shared memory fits and the arithmetic is of the expected
kind. It needs a process of its own: with TRITON_INTERPRET=1 kernels are not compiled at all. sm_75 has no tf32, so that
is left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import launch
from .launch import Launch

# T4, A100, A40 and RTX 30, L4 and RTX 40, H100, B200, RTX 50: bytes of shared memory that one program may have (CUDA's
# table of compute capabilities, "maximum amount of shared memory per thread block").
SHARED_MEMORY = {
    arch: kibibytes * 1024 for arch, kibibytes in {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}.items()
}
ARITHMETIC = {
    "ieee": (torch.float32, "ieee"),
    "tf32x3": (torch.float32, "tf32x3"),
    "tf32": (torch.float32, "tf32"),
    "float64": (torch.float64, "ieee"),
}
# Spills that are known: (kernel, dtype, precision, arch) -> instructions at most. None in float32 with exact products,
# which is what trials train in.
KNOWN_SPILLS = {
    ("whole", "float32", "tf32x3", "sm_100"): 2,
    ("expand", "float32", "tf32x3", "sm_120"): 11,
    ("expand", "float32", "tf32", "sm_120"): 2,
    ("project", "float64", "ieee", "sm_120"): 2,
    ("expand", "float64", "ieee", "sm_75"): 3,
    ("expand", "float64", "ieee", "sm_120"): 3,
}
KINDS = ("FFMA", "FFMA2", "DFMA", "HMMA", "HGMMA", "UTCHMMA", "DMMA")
ROWS = 8192


@dataclass(frozen=True)
class Entry:
    """One launch, compiled."""

    kernel: str
    case: str
    dtype: str
    precision: str
    arch: str
    warps: int
    registers: int
    shared_bytes: int
    spills: int
    arithmetic: str


def launches(dtype: torch.dtype, precision: str) -> Iterator[tuple[str, Launch]]:
    """The launches of a training step, for tensors without memory. Backward ones read D and C transposed."""

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    slope = empty(1)
    for n, leaves, rank in [(64, 4, 2), (128, 4, 8), (256, 8, 8)]:
        m, size, x = n // leaves, leaves * rank, empty(1, ROWS, 1, n)
        d, u, c, z = empty(1, leaves, m, m), empty(1, leaves, m, rank), empty(1, size, size), empty(1, ROWS, size)
        case = f"n={n} leaves={leaves} r={rank}"
        if launch.fits_one_launch(d, u):
            yield case, launch.whole(x, u, c, u, d, empty(1, n), slope, x, z, precision)
            yield f"{case} backward", launch.whole(x, u, c.mT, u, d.mT, None, None, x, z, precision)

    n, leaves, rank, terms = 1024, 8, 32, 2
    m, x, z = n // leaves, empty(1, ROWS, 1, n), empty(terms, ROWS, leaves * rank)
    d, u = empty(terms, leaves, m, m), empty(terms, leaves, m, rank)
    case = f"n={n} leaves={leaves} r={rank} terms={terms}"
    yield case, launch.project(x, u, z, precision)
    yield f"{case} summed", launch.expand(x, z, d, u, empty(1, n), slope, x, precision)
    yield f"{case} again", launch.expand(x, z, d, u, empty(1, n), slope, x, precision, only_small_slope=True)
    yield f"{case} backward", launch.expand(x, z, d.mT, u, None, None, x, precision)
    coefficients = z.unflatten(1, (1, ROWS)).permute(1, 2, 0, 3)
    yield f"{case} dD", launch.correlate(x, x, empty(8, *d.shape), precision)
    yield f"{case} dU", launch.correlate(x, coefficients, empty(8, *u.shape), precision)
    if precision == "ieee":  # no products, so their precision does not matter
        grid = launch.activation_backward_grid(x)
        parts = empty(grid[0], 1, n), empty(*grid)
        yield f"n={n}", launch.activation_backward(x, x, slope, x, *parts)


def build(one: Launch, arch: int) -> triton.compiler.CompiledKernel:
    """Compile as the launcher would: by default None and 1 become constants, and multiples of 16 are known."""
    types = {torch.float32: "*fp32", torch.float64: "*fp64"}
    signature, hints = {}, {}
    constants: dict[str, Any] = dict(one.constants)
    for place, parameter in enumerate(one.kernel.params):
        name, value = parameter.name, one.arguments.get(parameter.name)
        known = isinstance(value, int) and not parameter.do_not_specialize
        if name in one.constants or value is None or (known and value == 1):
            signature[name] = "constexpr"
            constants.setdefault(name, value)
            continue
        signature[name] = types[value.dtype] if isinstance(value, Tensor) else "i32"
        if isinstance(value, Tensor) or (known and value % 16 == 0):
            hints[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(one.kernel, signature, constants, hints)
    options = {"num_warps": one.warps, "num_stages": one.stages}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def disassemble(cubin: bytes) -> tuple[int, Counter[str]]:
    """Registers of a thread, and how often each instruction occurs in the machine code."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        printed = [
            subprocess.run([tool, what, file.name], check=True, capture_output=True, text=True).stdout
            for what in ("-res-usage", "-sass")
        ]
    registers = re.search(r"\bREG:(\d+)", printed[0])
    if registers is None:
        raise RuntimeError(f"cuobjdump did not say how many registers are used: {printed[0]!r}")
    # A line of code is `/*0a30*/   @P0 FFMA R1, R2, R3, R1 ;`
    return int(registers[1]), Counter(
        re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)", printed[1], re.M)
    )


def inspect(case: str, one: Launch, arch: int, dtype: torch.dtype, precision: str) -> Entry:
    compiled = build(one, arch)
    registers, found = disassemble(compiled.asm["cubin"])
    return Entry(
        kernel=one.kernel.__name__.removesuffix("_kernel"),
        case=case,
        dtype=str(dtype).removeprefix("torch."),
        precision=precision,
        arch=f"sm_{arch}",
        warps=one.warps,
        registers=registers,
        shared_bytes=compiled.metadata.shared,
        spills=found["LDL"] + found["STL"],
        arithmetic=" ".join(f"{kind}:{found[kind]}" for kind in KINDS if found[kind]),
    )


def broken_promises(entry: Entry) -> list[str]:
    limit = SHARED_MEMORY[int(entry.arch.removeprefix("sm_"))]
    name = f"{entry.kernel} ({entry.case}, {entry.dtype}, {entry.precision}, {entry.arch})"
    broken = []
    if entry.spills > KNOWN_SPILLS.get((entry.kernel, entry.dtype, entry.precision, entry.arch), 0):
        broken.append(f"{name} spills registers: {entry.spills} loads and stores of local memory")
    if entry.shared_bytes > limit:
        broken.append(f"{name} needs {entry.shared_bytes} bytes of shared memory, {limit} is the limit")
    if entry.kernel != "activation_backward" and not does_expected_arithmetic(entry):
        broken.append(f"{name} does other arithmetic than expected: {entry.arithmetic or 'none'}")
    return broken


def does_expected_arithmetic(entry: Entry) -> bool:
    """float32 products are exact or on tensor cores, as asked for; float64 is never computed in less."""
    done = {word.partition(":")[0] for word in entry.arithmetic.split()}
    tensor_cores = bool(done & {"HMMA", "HGMMA", "UTCHMMA"})
    if entry.precision != "ieee":
        return tensor_cores
    return not tensor_cores and bool(done & ({"DMMA", "DFMA"} if entry.dtype == "float64" else {"FFMA", "FFMA2"}))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="triton_report", help="written as OUT.csv and OUT.md (default: triton_report)")
    parser.add_argument("--arch", type=int, nargs="+", choices=sorted(SHARED_MEMORY), default=sorted(SHARED_MEMORY))
    parser.add_argument("--arithmetic", nargs="+", choices=list(ARITHMETIC), default=list(ARITHMETIC))
    options = parser.parse_args(arguments)
    if not isinstance(launch.kernels.project_kernel, triton.JITFunction):
        print("error: TRITON_INTERPRET is set, so there is nothing to compile. Unset it.", file=sys.stderr)
        return 2

    entries = [
        inspect(case, one, arch, dtype, precision)
        for dtype, precision in map(ARITHMETIC.__getitem__, options.arithmetic)
        for case, one in launches(dtype, precision)
        for arch in options.arch
        if arch >= 80 or precision == "ieee"
    ]
    table = pd.DataFrame([asdict(entry) for entry in entries])
    title = f"# Triton kernels, compiled ahead of time\n\nTriton {triton.__version__}; not run on a GPU.\n\n"
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(f"{options.out}.csv", index=False)
    Path(f"{options.out}.md").write_text(title + table.to_markdown(index=False) + "\n", encoding="utf-8")
    print(title + table.to_string(index=False))
    broken = [line for entry in entries for line in broken_promises(entry)]
    spilled = sum(entry.spills > 0 for entry in entries)
    summary = f"{len(entries)} kernels, {spilled} of them with known spills; shared memory fits, arithmetic as asked"
    print("\n".join(broken) or f"\n{summary}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
