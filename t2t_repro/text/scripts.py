"""Scripts that write without blanks between words, and how much their letters say."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache

HAN, KANA = "CJK", "KANA"

# The scripts without blanks, by the first words of the Unicode names of their letters.
_UNSPACED = (HAN, KANA, "BOPOMOFO", "YI", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI")

# The letters of an alphabet that one letter of a script is worth; 1 for other scripts.
_LETTERS = {HAN: 3, KANA: 2, "HANGUL": 2, "YI": 2, "ETHIOPIC": 2}

# The kana of a Japanese text count more than this share of its Han; a Chinese text may quote some.
_JAPANESE = 0.1


def unspaced_script(texts: Iterable[str]) -> str | None:
    """Returns the main script of texts if they are written without blanks between words, else None.

    It is the first word of the Unicode names of its letters. Japanese is `KANA`, though it has Han
    too. Letters count as many as they are worth in an alphabet.
    """
    letters: Counter[str] = Counter()
    for character, count in Counter(filter(str.isalpha, "".join(texts))).items():
        script = _script(character)
        letters[script] += count * _LETTERS.get(script, 1)
    unspaced = Counter({script: letters[script] for script in _UNSPACED})
    # No more than half of all letters.
    if 2 * unspaced.total() <= letters.total():
        return None
    main = unspaced.most_common(1)[0][0]
    is_japanese = main == HAN and letters[KANA] > _JAPANESE * letters[HAN]
    return KANA if is_japanese else main


def bleu_tokenizer(references: Iterable[str]) -> str:
    """Returns the sacreBLEU tokenizer that suits the references: 13a, zh or char.

    `ja-mecab` needs further packages, and `zh` does not split kana: Japanese gets char.
    """
    return {None: "13a", HAN: "zh"}.get(unspaced_script(references), "char")


def length_in_letters(text: str) -> int:
    """Returns the length that a text would have in an alphabet.

    A Han character counts as three letters, a kana as two; all other characters count, too.
    """
    return sum(_LETTERS.get(_script(character), 1) for character in text)


@cache
def _script(character: str) -> str:
    """Returns the first word of a letter's Unicode name, such as LATIN; for kana, `KANA`."""
    # As in HALFWIDTH KATAKANA LETTER A, and in NEW TAI LUE LETTER HIGH QA.
    name = unicodedata.name(character, "").removeprefix("HALFWIDTH ").removeprefix("NEW ")
    return KANA if name.startswith(("HIRAGANA", "KATAKANA")) else name.partition(" ")[0]
