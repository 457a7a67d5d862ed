"""Pieces that fill the sentence frames of the generated corpus, in English and German."""

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import permutations

from babel import Locale, dates, lists, numbers, units

from t2t_repro.data.corpora.corpus import Pair

_ENGLISH, _GERMAN = Locale("en"), Locale("de")
_NAMES = "Anna Paul Maria David Laura Simon Julia Martin Emma Thomas Sarah Daniel"
_TERRITORIES = (
    "DE FR ES IT PT CA MX BR AR CL PE CO EC BO UY JP CN IN KR VN TH ID MY PK RU PL CZ HU RO BG HR "
    "RS AL GR GE EG MA TN GH KE UG ET ZA AU NZ NO SE DK FI IS IE BE AT EE LV LT"
)
_LANGUAGES = (
    "de fr es it pt nl da sv fi et lv lt pl cs sk hu ro bg hr sr sl sq el tr ru uk ar he fa hi bn "
    "ta th vi id ja ko zh sw ga"
)
_PRICED = ("EUR", "USD", "GBP", "CHF", "JPY", "SEK", "PLN", "CZK")
_CURRENCIES = (*_PRICED, "NOK", "DKK", "CAD", "AUD", "INR", "BRL")
# Currencies whose German plural name is right in a sentence as CLDR has it: others begin with an
# adjective that CLDR writes with a capital letter.
_UNINFLECTED = ("EUR", "USD", "CHF")
_YEARS = range(1990, 2030)
# The seconds of a unit, and its largest number that Babel does not turn into the next unit.
_SPANS = {
    "minute": (60, 50),
    "hour": (3_600, 20),
    "day": (86_400, 5),
    "week": (604_800, 3),
    "month": (2_592_000, 10),
    "year": (31_536_000, 30),
}


@cache
def pieces_of(kind: str) -> tuple[Pair, ...]:
    """Returns all pieces of a kind, English and German, each pair once.

    Kinds are small enough that each piece, or each of its words, is common in train.
    """
    pieces = [(_plain_spaces(english), _plain_spaces(german)) for english, german in KINDS[kind]()]
    return tuple(dict.fromkeys(pieces))


def _plain_spaces(text: str) -> str:
    """Returns a text with plain spaces for CLDR's no-break spaces, as people type them."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def _both(form: Callable[..., str], values: Iterable[object]) -> Iterator[Pair]:
    """Yields each value as `form` writes it in English and in German: form(value, locale=...)."""
    for value in values:
        yield form(value, locale=_ENGLISH), form(value, locale=_GERMAN)


def _days_of(years: Iterable[int]) -> Iterator[datetime.date]:
    """Yields every day of the years."""
    for year in years:
        first = datetime.date(year, 1, 1)
        length = (datetime.date(year + 1, 1, 1) - first).days
        yield from (first + datetime.timedelta(days=day) for day in range(length))


def _dates(pattern: str, values: Iterable[datetime.date]) -> Iterator[Pair]:
    """Formats days by a pattern of CLDR, such as "EEEE": "Monday", "Montag"."""
    return _both(partial(dates.format_date, format=pattern), values)


def _weekday_dates() -> Iterator[Pair]:
    """Formats days with weekdays: "Monday, May 1"; in the dative, "Montag, dem 1. Mai".

    In eight years most dates have every weekday.
    """
    for value in _days_of(range(2018, 2026)):
        english = dates.format_date(value, "EEEE, MMMM d", locale=_ENGLISH)
        yield english, dates.format_date(value, "EEEE, 'dem' d. MMMM", locale=_GERMAN)


def _times(hours: Iterable[int]) -> Iterator[Pair]:
    """Formats every fifth minute of the hours: "1:05 PM", "13:05"."""
    times = [datetime.time(hour, minute) for hour in hours for minute in range(0, 60, 5)]
    return _both(partial(dates.format_time, format="short"), times)


def _periods(units_of_time: Iterable[str], direction: int) -> Iterator[Pair]:
    """Formats spans of time.

    Args:
        units_of_time: names of units.
        direction: 0 for "3 days", 1 for "in 3 days", -1 for "3 days ago" (German has another case).
    """
    # A span without a direction is a positive number of seconds.
    sign = direction or 1
    deltas: list[datetime.timedelta] = []
    for unit in units_of_time:
        seconds, largest = _SPANS[unit]
        deltas += [datetime.timedelta(seconds=sign * n * seconds) for n in range(2, largest + 1)]
    return _both(partial(dates.format_timedelta, add_direction=direction != 0), deltas)


def _quantities(unit_names: Sequence[str], values: Sequence[float]) -> Iterator[Pair]:
    """Formats each value with each of CLDR's units: "3 kilometers", "3 Kilometer"."""
    items = [(value, name) for name in unit_names for value in values]
    return _both(lambda item, locale: units.format_unit(*item, locale=locale), items)


def _prices(currencies: Sequence[str]) -> Iterator[Pair]:
    """Formats prices as numbers with a symbol: "€2.50", "2,50 €"."""
    # Small amounts with cents that are common in prices; then hundreds from 1,100 on, for the
    # separator of thousands, "," in English and "." in German.
    amounts = [number + cents for number in range(2, 100) for cents in (0.0, 0.25, 0.5, 0.99)]
    amounts += [100.0 * number for number in range(11, 100)]
    items: list[tuple[float, str]] = []
    for code in currencies:
        # There is no hundredth of a yen.
        items += [(amount, code) for amount in amounts if code != "JPY" or amount.is_integer()]
    return _both(lambda item, locale: numbers.format_currency(*item, locale=locale), items)


def _money() -> Iterator[Pair]:
    """Formats amounts with the names of currencies: "2 US dollars", "2 US-Dollar"."""

    def form(item: tuple[int, str], locale: Locale) -> str:
        amount, code = item
        name = numbers.get_currency_name(code, count=amount, locale=locale)
        return f"{numbers.format_decimal(amount, locale=locale)} {name}"

    return _both(form, [(number, code) for code in _UNINFLECTED for number in _ROUND_NUMBERS])


def _percentages() -> Iterator[Pair]:
    """Formats shares, from 1.1 % in tenths, from 10 % in whole numbers: "2.5%", "2,5 %"."""
    shares = [tenths / 1000 for tenths in [*range(11, 100), *range(100, 1000, 10)]]
    return _both(partial(numbers.format_percent, decimal_quantization=False), shares)


def _integers(values: Iterable[int]) -> Iterator[Pair]:
    """Formats whole numbers in digits: 1100 as "1,100" and "1.100"."""
    return _both(numbers.format_decimal, values)


def _large_numbers() -> Iterator[Pair]:
    """Formats large numbers: "2.5 million", "12 billion"; "2,5 Millionen", "12 Milliarden"."""
    factors = [tenths / 10 for tenths in range(21, 100) if tenths % 10] + list(range(2, 100))
    values = [round(factor * unit) for unit in (10**6, 10**9) for factor in factors]
    form = partial(numbers.format_compact_decimal, format_type="long", fraction_digits=1)
    return _both(form, values)


def _in_pairs(kind: str) -> Iterator[Pair]:
    """Joins every two different pieces of a kind: "Chile and Peru", "Chile und Peru".

    Each two come in both orders.
    """
    for first, second in permutations(pieces_of(kind), 2):
        english, german = zip(first, second, strict=True)
        yield lists.format_list(english, locale=_ENGLISH), lists.format_list(german, locale=_GERMAN)


_ROUND_NUMBERS = [*range(2, 100), *range(100, 1000, 50)]
_SMALL_NUMBERS = [*range(2, 51), *(tenths / 10 for tenths in range(15, 100, 10))]

# Each kind of piece that a frame may ask for, as (English, German).
KINDS: dict[str, Callable[[], Iterable[Pair]]] = {
    "name": lambda: [(name, name) for name in _NAMES.split()],
    "territory": lambda: _both(lambda code, locale: locale.territories[code], _TERRITORIES.split()),
    "territories": lambda: _in_pairs("territory"),
    "language": lambda: _both(lambda code, locale: locale.languages[code], _LANGUAGES.split()),
    "languages": lambda: _in_pairs("language"),
    "currency": lambda: _both(lambda code, locale: locale.currencies[code], _CURRENCIES),
    "date": lambda: _dates("long", _days_of(_YEARS)),
    "day": lambda: _both(partial(dates.format_skeleton, "MMMMd"), _days_of([2024])),  # "May 1"
    "weekday_date": _weekday_dates,
    "weekday": lambda: _dates("EEEE", list(_days_of([2024]))[:7]),
    "month": lambda: _dates("MMMM", _days_of([2024])),
    "quarter": lambda: _dates("QQQQ", _days_of([2024])),
    "year": lambda: _dates("y", [datetime.date(year, 1, 1) for year in _YEARS]),
    "time": lambda: _times(range(24)),
    "morning": lambda: _times(range(6, 12)),
    "evening": lambda: _times(range(13, 23)),
    "duration": lambda: _periods(["minute", "hour"], 0),
    "in_time": lambda: _periods(_SPANS, 1),
    "ago": lambda: _periods(_SPANS, -1),
    "price": lambda: _prices(_PRICED),
    "euros": lambda: _prices(["EUR"]),
    "money": _money,
    "share": _percentages,
    "count": lambda: _integers(range(2, 100)),
    "thousands": lambda: _integers([*range(1_100, 10_000, 100), *range(10_000, 100_000, 1_000)]),
    "millions": _large_numbers,
    "distance": lambda: _quantities(["length-kilometer", "length-mile"], _SMALL_NUMBERS),
    "far": lambda: _quantities(["length-kilometer", "length-mile"], range(1_100, 9_000, 100)),
    "weight": lambda: _quantities(["mass-gram", "mass-kilogram"], _SMALL_NUMBERS),
    "volume": lambda: _quantities(["volume-liter", "volume-milliliter"], _SMALL_NUMBERS),
    "area": lambda: _quantities(["area-hectare", "area-square-meter"], _SMALL_NUMBERS),
    "temperature": lambda: _quantities(["temperature-celsius"], range(2, 40)),
    "speed": lambda: _quantities(["speed-kilometer-per-hour"], range(20, 200)),
    "energy": lambda: _quantities(["energy-kilowatt-hour"], _ROUND_NUMBERS),
    "data": lambda: _quantities(["digital-megabyte", "digital-gigabyte"], _ROUND_NUMBERS),
}
