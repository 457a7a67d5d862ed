"""Scripts without blanks between words, and how much their letters say."""

import pytest

from t2t_repro.text.scripts import HAN, KANA, bleu_tokenizer, length_in_letters, unspaced_script


@pytest.mark.parametrize(
    ("text", "script", "tokenizer", "letters"),
    [
        ("我爱NBA", HAN, "zh", 9),
        # Japanese is not recognized by a single kana.
        ("这本日语书的名字叫の", HAN, "zh", 29),
        ("彼女は本を読みました", KANA, "char", 24),
        ("เธออ่าน", "THAI", "char", 7),
        ("เธออ่าน ア", "THAI", "char", 10),
        ("한국 a", None, "13a", 6),
        # Half of the text is not most of it.
        ("李abc", None, "13a", 6),
    ],
)
def test_a_text_has_the_script_of_most_of_its_letters(text, script, tokenizer, letters):
    assert unspaced_script([text]) == script
    assert bleu_tokenizer([text]) == tokenizer
    assert length_in_letters(text) == letters
