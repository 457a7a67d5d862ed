"""What is known of the generated corpus, and how links are counted."""

from pathlib import Path

from alignment import Counts, counts_of, known_links, known_words, links_of, total
from t2t_repro.data.corpora.generated import GeneratedCorpus


def test_what_is_known_is_right():
    german = known_words()
    assert german["Croatia"] == "Kroatien"
    assert german["1,500"] == "1.500"
    source = "The plane to Croatia takes off on Monday at 2:15 PM, says Anna to Anna."
    target = "Das Flugzeug nach Kroatien startet am Montag um 14:15 Uhr, sagt Anna zu Anna."
    assert known_links(source, target, german) == {(3, 3), (7, 6)}


def test_most_sentences_have_known_links():
    pairs = list(GeneratedCorpus(train_size=1, dev_size=1, test_size=200).read("test", Path()))
    german = known_words()
    assert sum(bool(known_links(*pair, german)) for pair in pairs) > 150


def test_links_of_words_that_nothing_is_known_of_do_not_count():
    found = links_of("0-0 3-3 3-2 5-6 1-1")
    counts = counts_of(found, {(3, 3), (7, 6)})
    assert counts == Counts(right=1, found=3, known=2)
    assert (counts.precision, counts.recall, counts.f1) == (1 / 3, 1 / 2, 2 / 5)
    assert total([counts, counts]) == Counts(2, 6, 4)
    assert links_of("") == set()
