"""``python -m pdebench_hss`` is ``pdebench-hss``."""

from .cli import main

if __name__ == "__main__":
    main()
