"""Tables that are spelled alike: what is worked out once for all of them is what each would give by itself."""

from __future__ import annotations

from factories.records import make_trial
from hypothesis import given
from hypothesis import strategies as st

from pdebench_hss.base.hashing import canonical, canonical_around
from pdebench_hss.trials.alike import Alike, AlikeTrials, Known
from pdebench_hss.trials.trial import trial_key

NAMES = st.sampled_from(["a", "seed", "b", "started", "\x00", "ended", 'q"', "é", "z"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(NAMES, VALUES)


@given(TABLES, st.sets(NAMES))
def test_text_that_is_known_goes_where_it_belongs(table, known):
    assert canonical_around(table, {name: canonical(table[name]) for name in known if name in table}) == canonical(
        table
    )


@given(st.lists(TABLES, min_size=1, max_size=4), VALUES, VALUES)
def test_the_text_of_a_table_is_its_own_whatever_was_seen_before(tables, seed, started):
    known = Known(Alike, "seed", "started")
    for table in tables:
        for other in (table, {**table, "seed": seed}, {**table, "seed": table, "started": started}):
            assert known.kind_of(other).text.of(other) == canonical(other)
            assert known.kind_of(other).sharing(other) == other


@given(st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=4), st.dictionaries(NAMES, VALUES, max_size=3))
def test_keys_and_trials_are_those_that_each_would_have_alone(seeds, hparams):
    known = Known(AlikeTrials, "seed")
    for seed in seeds:
        trial = make_trial(seed=seed, hparams=hparams)
        kind = known.kind_of(trial.to_dict())
        assert kind.key(trial.to_dict()) == trial_key(trial.to_dict()) == trial.key
        assert kind.trial(trial.to_dict(), trial.key) == trial
    assert len(known.by_spelling) == 1
