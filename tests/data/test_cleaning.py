import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.data import cleaning
from t2t_repro.data.cleaning import REASONS, Cleaning, CleaningReport, SeenHashes, clean

DEFAULT = Cleaning()
PLAIN = Cleaning(drop_duplicates=False, drop_held_out=False)


def run(pairs, rules=DEFAULT, held_out=()):
    blocks = [pairs[start : start + 3] for start in range(0, len(pairs), 3)]
    kept, report = [], CleaningReport()
    for pairs, of_block in clean(blocks, rules, held_out, workers=1):
        kept += pairs
        report.update(of_block)
    return kept, +report


def test_length_limit_is_inclusive_and_holds_for_either_side():
    rules = Cleaning(max_words=3)
    assert run([("a b c", "d e f")], rules)[1] == {"kept": 1}
    assert run([("a b c d", "d e f"), ("a b c", "d e f g")], rules)[1] == {"over_long": 2}


def test_ratio_is_in_characters_inclusive_and_symmetric():
    rules = Cleaning(max_length_ratio=3.0)
    assert run([("ab", "x" * 6), ("a b c", "Donaudampfschif")], rules)[1] == {"kept": 2}
    assert run([("ab", "x" * 7), ("x" * 7, "ab")], rules)[1] == {"length_ratio": 2}
    # One word for four is no reason; nor is a single character's pair with white space around it.
    assert run([("fifth highest mountain top", "Fünfthöchstergipfel")])[1] == {"kept": 1}
    assert run([("a" + " " * 50, "a")], rules)[1] == {"kept": 1}
    # A letter of Han says as much as three of an alphabet.
    pairs = [("Thank you very much indeed.", one) for one in ("多谢", "ขอ")]
    assert run(pairs) == (pairs[:1], {"kept": 1, "length_ratio": 1})


@pytest.mark.parametrize("side", ["\x01\x02", "\u200b \ufeff", "\u00ad", "\u034f", "\ufffd", "▁"])
def test_a_side_of_which_subwords_see_nothing_is_empty(side):
    pairs = [(side, "Auto"), ("car", side), (f"a{side}", "\U0001f6b2")]
    assert run(pairs) == (pairs[2:], {"kept": 1, "empty_side": 2})


def test_duplicates_are_equal_pairs_up_to_white_space_and_the_first_is_kept_as_it_is():
    pairs = [(" a  b", "c"), ("a b", "c "), ("a b", "C"), ("a", "b c"), ("a b", "c")]
    kept, report = run(pairs)
    assert kept == [(" a  b", "c"), ("a b", "C"), ("a", "b c")]
    assert report == {"kept": 3, "duplicate": 2}
    assert run(pairs, PLAIN)[0] == pairs


def test_either_side_seen_in_held_out_data_drops_the_pair():
    held_out = [("Good  morning!", "Guten Morgen!"), ("Yes.", "Straße.")]
    pairs = [
        ("good morning! ", "Moin!"),
        ("Hello there!", "GUTEN MORGEN!"),
        ("Road.", "STRASSE."),
        ("Guten Morgen!", "Good morning!"),  # the other way round: other languages, no overlap
        ("Good evening!", "Guten Abend!"),
    ]
    kept, report = run(pairs, held_out=held_out)
    assert kept == pairs[3:]
    assert report == {"kept": 2, "held_out_overlap": 3}
    assert run(pairs, Cleaning(drop_held_out=False), held_out)[0] == pairs


side = st.text("ab \u00a0X", max_size=8)
pairs_of_text = st.lists(st.tuples(side, side), max_size=30)


@given(pairs=pairs_of_text, held_out=pairs_of_text)
def test_kept_pairs_are_a_clean_subsequence_and_every_pair_is_counted(pairs, held_out):
    kept, report = run(pairs, Cleaning(max_words=3, max_length_ratio=2.0), held_out)
    remaining = iter(pairs)
    assert all(pair in remaining for pair in kept)
    assert sum(report.values()) == len(pairs)
    assert set(report) <= {"kept", *REASONS}
    # What was kept passes unchanged through the same rules: nothing more would be dropped.
    assert run(kept, Cleaning(max_words=3, max_length_ratio=2.0), held_out)[0] == kept

    def folded(text: str) -> str:
        return " ".join(text.split()).casefold()

    sources, targets = {folded(a) for a, _ in held_out}, {folded(b) for _, b in held_out}
    assert not any(folded(a) in sources or folded(b) in targets for a, b in kept)
    assert len({(*a.split(), "\t", *b.split()) for a, b in kept}) == len(kept)


blocks_of_hashes = st.lists(st.lists(st.integers(0, 20) | st.just(2**64 - 1), max_size=8))


@given(blocks_of_hashes, st.integers(1, 6))
def test_hashes_seen_behave_like_a_set(blocks, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaning, "_LONGEST_RUN", longest)
        seen, reference = SeenHashes(), set()
        for block in blocks:
            expected = []
            for number in block:
                expected.append(number not in reference)
                reference.add(number)
            assert seen.add(np.array(block, np.uint64)).tolist() == expected
        assert sum(map(len, seen._runs)) == len(reference)
