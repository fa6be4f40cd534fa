"""``pdebench-hss doctor --device DEVICE``: does everything that a trial relies on hold on this device?

Twelve checks, a line each. Every check is a function ``check(emit, device) -> dict`` that returns an `Outcome` as plain
values, and runs in a fork of a warm worker, as trials do: one that crashes or hangs does not affect the others. A
plugin brings checks of its own (of its kernels, its timings) through the hook ``pdebench_hss_device_checks``.

    outcome      what a check returns
    accelerator  the few things asked of a device, so that a fake one can answer in tests
    environment  versions, fork then allocate, flags
    numerics     every model against the CPU, waits for the device, FLOPs
    trials       the same trial twice, save and resume, a budget of seconds, peak memory, several GPUs
    report       runs them, prints the lines, writes one JSON to send in

``--device cpu`` is a rehearsal: the CPU stands in for the GPU and is compared with itself.
"""
