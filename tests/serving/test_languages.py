"""Codes of languages: clients write them in several ways."""

import pytest

from t2t_repro.serving.languages import find_code


@pytest.mark.parametrize(
    ("asked", "served", "found"),
    [
        ("DE", "en de", "de"),
        ("deu", "en de", "de"),
        ("en-GB", "en de", "en"),
        ("pt-PT", "pt-BR", "pt-PT"),
        ("zh-HK", "zh zh-Hant", "zh-Hant"),
        ("zh", "zh-Hant zh-Hans", "zh-Hans"),
        ("zh-hant", "zh zh-Hant", "zh-Hant"),
        ("zh-Hant", "zh", "zh-Hant"),
        ("pb", "pt pt-BR", "pt-BR"),
        ("pt", "pt-BR", "pt-BR"),
        ("es_419", "es es-419", "es-419"),
        ("PT", "pt_PT en", "pt_PT"),
        ("zh", "zh-TW", "zh"),
        ("sr-latn", "sr sr-Latn", "sr-Latn"),
        ("zh-CN", "zh-Hant zh-Hans", "zh-Hans"),
        ("no", "nb nn", "nb"),
        ("-", "de", "-"),
    ],
)
def test_a_language_is_found_under_its_other_codes(asked, served, found):
    assert find_code(asked, served.split()) == found
