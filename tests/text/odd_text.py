"""Text to learn subwords from, and text that is difficult for them."""

import random
import sys

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from t2t_repro.text.characters import INVISIBLE, WITHOUT_INVISIBLE, readable

TAGS = ["<2de>", "[BT]", "⟨ﬁ½⟩"]
WORDS = [
    *("der", "die", "und", "Haus", "Straße", "grün", "Mann", "Frau", "Hund", "läuft", "schläft"),
    *("the", "and", "house", "street", "green", "woman", "dog", "runs", "sleeps", "over", "under"),
    *("12", "345", ",", ".", "!"),
]
# What becomes a space, what vanishes, what joins the character before it, what comes apart.
HOSTILE = [
    *(" ", "  ", "\u00a0", "\u3000", "\t", "\n", "\u2028", "\x85", "\x00", *INVISIBLE, "\u200c"),
    *("´", "¨", "\u0301", "\u0308", "e", "½", "ﬁ", "ﷺ", "🦄", "한", "\u1112", "\u1161", "▁", "⁇"),
    *(*TAGS, "<", "2de", "BT]", "_", "\\u", "\\8364;", ">>fra<<", ">>", "<<", "</s>", "<pad>", "☃"),
]
# What str.strip removes, and what looks like it.
ENDS = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]
ENDS += list("\0\x1b\x7f\u180e\u200b\u2060\u2581\ufeff")

hypothetical = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
any_text = st.text(st.characters(codec="utf-8"), max_size=40) | st.lists(
    st.sampled_from([*WORDS, *HOSTILE]), max_size=12
).map("".join)


def sentences(count=2000, seed=0):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 12))) for _ in range(count)]


def seen(line):
    """The line as SentencePiece is given it."""
    shorter = line.translate(WITHOUT_INVISIBLE)
    return (shorter.strip() if shorter != line else line).replace("\u2581", " ")


def normalized(model, line):
    """The line as SentencePiece's model sees it, which is what its ids decode to."""
    marked = model._model.normalize(seen(line))
    ends = model.word_marks.at_end
    without_mark = (marked.removesuffix if ends else marked.removeprefix)("\u2581")
    return readable(without_mark.replace("\u2581", " "))
