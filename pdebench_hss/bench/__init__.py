"""Time and memory compared: ``pdebench-hss bench NAME``. Plugins add benches by the hook ``pdebench_hss_benches``."""
