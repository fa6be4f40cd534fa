"""What a board has to say against itself, by itself: not converged, not tuned alike, of unlike size, of one seed, or
with trained rows that a guess beats.

Only trained rows that have a result count; a board of closed forms and solvers has nothing to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import pandas as pd

from ..base.plain_text import markdown
from .frames import GROUP, is_deterministic
from .ladders import STILL, top
from .standing import standing
from .text import size_note, to_markdown
from .trust import unchecked


def caveats(board: pd.DataFrame, guesses: Collection[str] = ()) -> list[str]:
    """A line for each reason to read a leaderboard with care, without a full stop; none if there is no reason.
    ``guesses`` are the models that know nothing of a problem."""
    rows = top(board[board["n_seeds"] > 0])  # what was run on the way up a ladder is there to show convergence
    trained = rows[~rows["training_free"].astype(bool) & ~is_deterministic(rows)]
    if trained.empty:
        return []
    lines = (_convergence(trained), _tuning(trained), _sizes(rows), _seeds(trained), _guessed(board, guesses))
    return [line for line in lines if line]


def leaderboard_page(board: pd.DataFrame, guesses: Collection[str] = ()) -> str:
    """`leaderboard.md`: the caveats first, and what nobody has checked, then the tables."""
    lines = "".join(f"- {markdown(line)}\n" for line in filter(None, (*caveats(board, guesses), unchecked(board))))
    return (f"Read with care:\n\n{lines}\n" if lines else "") + to_markdown(board)


def _convergence(trained: pd.DataFrame) -> str:
    known = trained["converged"].dropna() if "converged" in trained else pd.Series(dtype=object)
    if known.empty:
        return "convergence was not measured: every model has one budget"
    still, unknown, percent = int((known == "no").sum()), len(trained) - len(known), f"{100 * STILL:g} %"
    parts = []
    if still:
        parts.append(
            f"{still} of {len(trained)} trained rows are not converged: the last step up the ladder of budgets lowered "
            f"their error by more than {percent} a doubling"
        )
    if unknown:
        parts.append(f"of {unknown} trained rows it is not known whether they are converged")
    return "; ".join(parts)


def _tuning(trained: pd.DataFrame) -> str:
    tries = trained["tuned_tries"] if "tuned_tries" in trained else pd.Series(float("nan"), index=trained.index)
    counts = Counter(int(count) for count in tries.fillna(0))
    if set(counts) == {0}:
        return "options were not tuned for this board: every model has its defaults"
    if len(counts) == 1:
        return ""
    listed = ", ".join(f"{tries} in {rows} rows" for tries, rows in sorted(counts.items()))
    return f"not tuned alike: the number of tries is {listed}"


def _sizes(board: pd.DataFrame) -> str:
    notes = [size_note(group) for _, group in board.groupby(GROUP, sort=False, dropna=False)]
    unlike = sum(bool(note) for note in notes)
    return (
        f"sizes of trained models differ by more than a factor of three in {unlike} of {len(notes)} tables"
        if unlike
        else ""
    )


def _seeds(trained: pd.DataFrame) -> str:
    single = int((trained["n_expected"] == 1).sum())
    if not single:
        return ""
    which = "every trained row has" if single == len(trained) else f"{single} of {len(trained)} trained rows have"
    return f"{which} one seed: another training may end elsewhere"


def _guessed(board: pd.DataFrame, guesses: Collection[str]) -> str:
    found = standing(board, guesses, ())
    if not found.behind:
        return ""
    return f"{len(found.behind)} of {found.rows} trained rows are no better than a guess: " + ", ".join(found.behind)
