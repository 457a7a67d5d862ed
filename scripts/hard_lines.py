"""Counts the numbers, URLs, e-mail addresses, codes, capitals and emoji that a model keeps.

    python scripts/hard_lines.py --test=test.en > hard.en                     # 50 lines
    python scripts/hard_lines.py --test=test.en --translations=hard.de        # counts
    python scripts/hard_lines.py --test=test.en --model_dir=runs/mine/model   # both in one

The lines are the first sentences of the corpus's test file with one such word in each: in the
middle, at the end or at the beginning. For each kind it prints how many words stand unchanged in
the translations, as often as in the line; for capitals, how many translations are in capitals. The
same file gives the same lines. `TextVariants` does not make these words, and puts none in the
middle.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

WORDS = {
    "numbers": ("17", "205", "3,500", "1987", "42", "60319", "8", "12.75"),
    "URLs": ("https://www.python.org/downloads/", "http://example.com/a?id=7", "www.rail.co.uk"),
    "e-mail": ("anna.schmidt@example.org", "info@weather-service.com", "j_miller82@mail.net"),
    "codes": ("KX-4821", "B7/22", "ISO 9001", "T-1000X", "EU-2019-88"),
    "capitals": ("",),
    "emoji": ("🙂", "🚲", "🎉🎉", "👍", "🐶"),
    "scripts": ("Москва", "東京", "Αθήνα", "서울"),
}
LINES = 50


class HardLine(NamedTuple):
    """A line to translate.

    Attributes:
        kind: one of `WORDS`.
        word: to be found in the translation; empty for a line in capitals.
        text: of the line.
    """

    kind: str
    word: str
    text: str

    def is_kept(self, translation: str) -> bool:
        """Returns whether a translation has the word as often as the line, or is in capitals."""
        if not self.word:
            return translation.isupper()
        word = re.compile(rf"(?<!\w){re.escape(self.word)}(?!\w)")
        return len(word.findall(translation)) == len(word.findall(self.text))


def hard_lines(sentences: Sequence[str]) -> list[HardLine]:
    """Returns the lines made from the first sentences of a corpus."""
    lines = []
    for number, sentence in enumerate(sentences[:LINES]):
        turn, index = divmod(number, len(WORDS))
        kind, words = list(WORDS.items())[index]
        word = words[turn % len(words)]
        body, end = re.findall(r"^(.*?)(\W*)$", sentence)[0]
        parts = body.split()
        parts.insert((len(parts) // 2, len(parts), 0)[turn % 3], word)
        lines.append(HardLine(kind, word, " ".join(parts) + end if word else sentence.upper()))
    return lines


def main() -> None:
    """Prints the lines, or the counts for their translations."""
    parser = argparse.ArgumentParser(description="Counts hard words that a model keeps.")
    parser.add_argument("--test", type=Path, required=True, help="source side, plain text")
    translated = parser.add_mutually_exclusive_group()
    translated.add_argument("--translations", type=Path, help="of the 50 lines")
    translated.add_argument("--model_dir", help="of the model that translates the lines")
    args = parser.parse_args()
    lines = hard_lines(args.test.read_text(encoding="utf-8").rstrip("\n").split("\n")[:LINES])
    text = "".join(f"{line.text}\n" for line in lines)
    if args.model_dir:
        options = [f"--model_dir={args.model_dir}", "--split_sentences"]
        command = [sys.executable, "-m", "t2t_repro.translate", *options]
        text = subprocess.run(
            command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True
        ).stdout
    elif args.translations:
        text = args.translations.read_text(encoding="utf-8")
    else:
        print(text, end="")
        return
    for kind in WORDS:
        pairs = zip(lines, text.split("\n"), strict=False)
        kept = [line.is_kept(translation) for line, translation in pairs if line.kind == kind]
        print(f"{kind:10}{sum(kept):3} of {len(kept)}")


if __name__ == "__main__":
    main()
