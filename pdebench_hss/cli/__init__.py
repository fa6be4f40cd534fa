"""The command line. `main` is the one place where errors become messages and exit codes.

Exit codes: 0 fine, 1 some trial failed or data could not be made, 2 usage, 3 regression, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C


def main(arguments: list[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments or bool(os.environ.get("PDEBENCH_HSS_DEBUG"))
    arguments = [word for word in arguments if word != "--debug"]
    sys.exit(_run(arguments, debug))


def _run(arguments: list[str], debug: bool) -> int:
    import typer

    from ..base.errors import PdebenchError
    from ..base.machine import use_large_pages
    from .app import app

    use_large_pages()

    # The base of all usage errors; typer re-exports its subclasses only, and may bundle click or depend on it.
    usage_error = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
    warnings.showwarning = _one_line_warning  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # else `nohup` wants it so
        signal.signal(signal.SIGHUP, _hang_up)
    try:
        result = app(arguments, standalone_mode=False, prog_name="pdebench-hss")
        sys.stdout.flush()  # here, where a reader that left is no error
        if result == STOPPED:  # what typer makes of Ctrl-C, unless somebody had more to say about it
            print("stopped.", file=sys.stderr)
        return int(result or 0)
    except PdebenchError as error:
        if debug:
            traceback.print_exc()
        prefix = "" if error.exit_code == STOPPED else "error: "
        print(f"{prefix}{_plain(error)}", file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print("stopped.", file=sys.stderr)
        return STOPPED
    except SystemExit as end:
        if "_PDEBENCH_HSS_COMPLETE" in os.environ:  # the shell's completion ends this way
            raise
        if _is_closed_pipe(end):  # click and rich make this of a BrokenPipeError
            return _without_reader()
        print(f"error: a plugin called sys.exit({end.code}); --debug shows where", file=sys.stderr)
        if debug:
            traceback.print_exc()
        return 1
    except BrokenPipeError:
        return _without_reader()
    except Exception as error:
        if isinstance(error, usage_error):
            return _usage(error)
        if debug:
            traceback.print_exc()
        print(f"error: {type(error).__name__}: {_plain(error)}  (--debug shows where)", file=sys.stderr)
        return 1


def _without_reader() -> int:
    """The reader of our output closed it (`| head`): this is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _is_closed_pipe(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, BrokenPipeError):
        error = error.__context__
    return error is not None


def _usage(error: Any) -> int:
    """The parser's own complaint, in one line with where to look; help where nothing was asked."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
    else:
        where = error.ctx.command_path if getattr(error, "ctx", None) else "pdebench-hss"
        print(f"error: {error.format_message()}  See: {where} --help", file=sys.stderr)
    return 2


def _one_line_warning(message: Any, category: type[Warning], filename: str, line: int, *_: Any, **__: Any) -> None:
    ours = category.__module__.startswith("pdebench_hss")
    text = str(message) if ours else f"{category.__name__}: {message} ({os.path.basename(filename)}:{line})"
    if text not in _SAID:  # one bad file may be read more than once
        _SAID.add(text)
        print(f"warning: {_plain(text)}", file=sys.stderr)


def _plain(message: object) -> str:
    """Messages quote files and plugins; neither may send control sequences to the terminal."""
    from ..base.plain_text import visible

    return visible(message, keep="\n")


_SAID: set[str] = set()


def _terminate(*_: Any) -> None:
    """A polite kill stops a run the way Ctrl-C does."""
    raise KeyboardInterrupt


def _hang_up(*_: Any) -> None:
    """So does closing the terminal; what is still printed must not fail because of it."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    raise KeyboardInterrupt
