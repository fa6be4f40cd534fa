"""Bytes at a place: a local path, or any address that fsspec knows (``s3://bucket/runs``, ``gs://…``, ``file:///…``).

Checkpoints live here, so that a trial that loses its machine can resume elsewhere. A write replaces the whole file or
leaves the old one; what is read back is checked by its reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import UsageError
from .files import replacing


def join(place: str | Path, *names: str) -> str:
    """A path or address below another."""
    return "/".join([str(place).rstrip("/"), *names]) if is_address(place) else str(Path(place, *names))


def is_address(place: str | Path) -> bool:
    return "://" in str(place)


def read(place: str | Path) -> bytes | None:
    """What is there, or None."""
    try:
        if not is_address(place):
            return Path(place).read_bytes()
        filesystem, path = _filesystem(place)
        return bytes(filesystem.cat_file(path))
    except FileNotFoundError:
        return None


def write(place: str | Path, content: bytes) -> None:
    if not is_address(place):
        with replacing(Path(place)) as temporary:
            temporary.write_bytes(content)
        return
    filesystem, path = _filesystem(place)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    # Object stores replace a file atomically; others do not, so write beside it first.
    filesystem.pipe_file(f"{path}.tmp", content)
    filesystem.mv(f"{path}.tmp", path)


def remove(place: str | Path) -> None:
    """Remove what is there; it is not an error if there is nothing."""
    try:
        if not is_address(place):
            Path(place).unlink(missing_ok=True)
            return
        filesystem, path = _filesystem(place)
        filesystem.rm_file(path)
    except FileNotFoundError:
        pass


def check_writable(place: str) -> None:
    """Prove, before anything is trained, that a file can be written there."""
    try:
        write(join(place, ".probe"), b"x")
        remove(join(place, ".probe"))
    except UsageError:
        raise
    except Exception as error:  # whatever the file system of that address raises
        raise UsageError(f"--storage {place}: can't write there ({type(error).__name__}: {error})") from error


def _filesystem(place: str | Path) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"--storage {place}: an address needs fsspec: pip install 'pdebench-hss[ray]'") from None
    try:
        return fsspec.core.url_to_fs(str(place))
    except (ImportError, ValueError) as error:  # no such protocol, or its package is not installed
        raise UsageError(f"--storage {place}: {error}") from None
