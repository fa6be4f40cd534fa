"""Time and memory side by side: ``pdebench-hss bench NAME``. Benches come by the hook ``pdebench_hss_benches``."""
