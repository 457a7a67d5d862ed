"""A synthetic English-German corpus that needs no download and that a small model can learn."""

import datetime
import functools
import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import babel
import gin
from babel import Locale, dates, lists, numbers, units

from t2t_repro.data.corpora import Pair, check_split
from t2t_repro.errors import UserError

# English and German lines in turn. A word in braces is a slot: a kind of piece (see _pieces), with
# a digit behind it where one kind occurs twice; two pieces of one kind always differ. German
# inflects, and the pieces do not: so a slot stands only where its form is right as it is, e.g.
# a duration in the accusative, or after a preposition with "in_time" and "ago", which Babel
# has in the dative. Countries are those that German uses without an article.
_FRAMES_TEXT = """
The plane to {territory} takes off on {weekday} at {time}.
Das Flugzeug nach {territory} startet am {weekday} um {time} Uhr.
{name} flew from {territory} to {territory2} on {date}.
{name} flog am {date} von {territory} nach {territory2}.
The meeting on {weekday_date}, begins at {time}.
Die Besprechung am {weekday_date}, beginnt um {time} Uhr.
The museum is open from {morning} to {evening} on {weekday}.
Das Museum ist am {weekday} von {morning} bis {evening} Uhr geöffnet.
{name} pays {price} for {weight} of cheese.
{name} bezahlt {price} für {weight} Käse.
A flight from {territory} to {territory2} costs {price}.
Ein Flug von {territory} nach {territory2} kostet {price}.
{name} started learning {language} {ago}.
{name} hat {ago} angefangen, {language} zu lernen.
{name} speaks {languages} and lives in {territory}.
{name} spricht {languages} und lebt in {territory}.
The population of {territory} grew by {share} in {year}.
Die Bevölkerung von {territory} wuchs im Jahr {year} um {share}.
In {month}, the prices in {territory} rose by {share}.
Im {month} stiegen die Preise in {territory} um {share}.
The temperature in {territory} will reach {temperature} on {weekday}.
Die Temperatur in {territory} wird am {weekday} {temperature} erreichen.
The flight path from {territory} to {territory2} is {far} long.
Die Flugstrecke von {territory} nach {territory2} ist {far} lang.
The package weighs {weight} and will arrive {in_time}.
Das Paket wiegt {weight} und kommt {in_time} an.
{name} sold {area} of land for {price}.
{name} verkaufte {area} Land für {price}.
Since {year}, the company in {territory} has employed {thousands} people.
Seit {year} beschäftigt die Firma in {territory} {thousands} Menschen.
The city has {millions} inhabitants, and {share} of them speak {language}.
Die Stadt hat {millions} Einwohner, und {share} davon sprechen {language}.
The contract was signed in {territory} on {date}.
Der Vertrag wurde am {date} in {territory} unterzeichnet.
The contract expires on {date} at {time}.
Der Vertrag läuft am {date} um {time} Uhr ab.
Exports to {territories} increased by {share} in the {quarter} of {year}.
Die Exporte nach {territories} stiegen im {quarter} {year} um {share}.
Imports from {territory} fell to {millions} tons in {year}.
Die Importe aus {territory} sanken im Jahr {year} auf {millions} Tonnen.
The film is shown in {language} at {time} and lasts {duration}.
Der Film wird um {time} Uhr auf {language} gezeigt und dauert {duration}.
The book appeared in {language} {ago} and cost {price}.
Das Buch erschien {ago} auf {language} und kostete {price}.
On {date}, there was {price} in the account.
Am {date} waren {price} auf dem Konto.
{name} borrowed {money} {ago}.
{name} hat sich {ago} {money} geliehen.
In {territory}, {name} changed {price} into the currency "{currency}".
In {territory} wechselte {name} {price} in die Währung „{currency}“.
The hotel room in {territory} costs {price} per night.
Das Hotelzimmer in {territory} kostet {price} pro Nacht.
{share} of the students come from {territory} and {share2} from {territory2}.
{share} der Studierenden kommen aus {territory} und {share2} aus {territory2}.
The plant supplied {energy} in {month} {year}.
Die Anlage lieferte im {month} {year} {energy}.
The download of {data} takes {duration}.
Der Download von {data} dauert {duration}.
Add {volume} of water and wait for {duration}.
Geben Sie {volume} Wasser hinzu und warten Sie {duration}.
Stir in {weight} of sugar and {volume} of milk.
Rühren Sie {weight} Zucker und {volume} Milch unter.
On {weekday}, the wind in {territory} reached {speed}.
Am {weekday} erreichte der Wind in {territory} {speed}.
{name} ran {distance} in {duration}.
{name} lief {distance} in {duration}.
{name} was born in {territory} on {date}.
{name} wurde am {date} in {territory} geboren.
{name} moved to {territory} {ago} and speaks {language} there.
{name} zog {ago} nach {territory} und spricht dort {language}.
{name} will visit {territories} {in_time}.
{name} wird {in_time} {territories} besuchen.
The concert will take place on {weekday_date}, at {time}.
Das Konzert findet am {weekday_date}, um {time} Uhr statt.
The call from {territory} began at {time} and lasted {duration}.
Der Anruf aus {territory} begann um {time} Uhr und dauerte {duration}.
The ship with {thousands} containers left {territory} {ago}.
Das Schiff mit {thousands} Containern hat {territory} {ago} verlassen.
{name} read {count} pages in {duration}.
{name} hat in {duration} {count} Seiten gelesen.
The factory produces {thousands} bottles per day and {millions} per year.
Die Fabrik stellt pro Tag {thousands} Flaschen her und pro Jahr {millions}.
In {year}, {territory} spent {millions} euros on schools.
Im Jahr {year} gab {territory} {millions} Euro für Schulen aus.
The shop in {territory} changed the price from {euros} to {euros2}.
Der Laden in {territory} hat den Preis von {euros} auf {euros2} geändert.
On {weekday}, the delivery to {territory} was delayed by {duration}.
Am {weekday} verspätete sich die Lieferung nach {territory} um {duration}.
{name} saves {share} of the salary, about {euros} per month.
{name} spart {share} des Gehalts, etwa {euros} pro Monat.
The forest in {territory} covers {area} and belongs to {name}.
Der Wald in {territory} umfasst {area} und gehört {name}.
{name} has lived in {territory} since {month} {year}.
{name} wohnt seit {month} {year} in {territory}.
The library is closed from {day} to {day2}.
Die Bibliothek ist vom {day} bis zum {day2} geschlossen.
The course in {language} starts on {day} and costs {euros}.
Der Kurs auf {language} beginnt am {day} und kostet {euros}.
The next lesson on {weekday_date}, ends at {time}.
Die nächste Stunde am {weekday_date}, endet um {time} Uhr.
The letter of {date} is written in {language}.
Der Brief vom {date} ist auf {language} verfasst.
The alarm rang at {time}, and {name} got up {duration} later.
Der Wecker klingelte um {time} Uhr, und {name} stand {duration} später auf.
The bridge in {territory} is {distance} long and was built in {year}.
Die Brücke in {territory} ist {distance} lang und wurde {year} gebaut.
The temperature fell from {temperature} to {temperature2} within {duration}.
Die Temperatur fiel innerhalb von {duration} von {temperature} auf {temperature2}.
{name} drank {volume} of water at {time}.
{name} trank um {time} Uhr {volume} Wasser.
The hard disk holds {data} and costs {euros}.
Die Festplatte fasst {data} und kostet {euros}.
The tax in {territory} is {share} and is due on {day}.
Die Steuer in {territory} beträgt {share} und ist am {day} fällig.
The election in {territory} was won in {month} {year} with {share} of the votes.
Die Wahl in {territory} wurde im {month} {year} mit {share} der Stimmen gewonnen.
The series has {count} episodes in {language} and {count2} in {language2}.
Die Serie hat {count} Folgen auf {language} und {count2} auf {language2}.
The doctor can see {name} on {weekday} at {time}.
Der Arzt kann {name} am {weekday} um {time} Uhr empfangen.
"""
_FRAME_LINES = _FRAMES_TEXT.strip().split("\n")
FRAMES: tuple[Pair, ...] = tuple(zip(_FRAME_LINES[::2], _FRAME_LINES[1::2], strict=True))

_T = TypeVar("_T")
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


@gin.configurable
class GeneratedCorpus:
    """Synthetic English-German sentences: for trying the pipeline out, not for translating.

    Hand-written sentence frames are filled with dates, times, durations, prices, quantities,
    countries and languages as Babel formats them for both languages (from Unicode's CLDR). What
    there is to learn: word order, copying, other formats of numbers, 12-hour to 24-hour clock.

    The data are a function of the arguments and of Babel's version, which therefore is part of
    `describe`. No source and no target occurs twice in all splits together; an English
    sentence has one German translation. dev and test do not depend on `train_size`.

    Args:
        seed: Any integer; another seed draws other sentences from the same frames.
        train_size: Number of pairs in train.
        dev_size: Number of pairs in dev.
        test_size: Number of pairs in test.

    Raises:
        UserError: A size is below 1, or all together are more than the frames can give.
    """

    splits: tuple[str, ...] = ("train", "dev", "test")

    def __init__(
        self,
        seed: int = 1,
        train_size: int = 120_000,
        dev_size: int = 1_000,
        test_size: int = 1_000,
    ) -> None:
        self._seed = seed
        # Held-out splits come first, so that a longer train takes nothing away from them.
        self._sizes = {"dev": dev_size, "test": test_size, "train": train_size}
        for split, size in self._sizes.items():
            if size < 1:
                raise UserError(f"GeneratedCorpus.{split}_size = {size}: expected at least 1")
        # Frames are drawn evenly: the smallest is the first from which nothing new can be drawn.
        limit = len(FRAMES) * min(map(_capacity, FRAMES)) // 2
        if sum(self._sizes.values()) > limit:
            raise UserError(
                f"GeneratedCorpus: {sum(self._sizes.values()):,} sentences are asked for, and the "
                f"frames give {limit:,} different ones; ask for a smaller train_size"
            )

    def describe(self) -> dict[str, Any]:
        """Return the arguments, Babel's version and a SHA-256 of the first held-out sentences.

        The hash changes with the frames and the pieces, whoever changes them.
        """
        sample = _draw_new(random.Random(0), 200, set(), set())
        text = "\n".join("\t".join(pair) for pair in sample)
        return {
            "corpus": "GeneratedCorpus",
            "seed": self._seed,
            "train_size": self._sizes["train"],
            "dev_size": self._sizes["dev"],
            "test_size": self._sizes["test"],
            "babel": babel.__version__,
            "sample_sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        }

    def prepare(self, download_dir: Path) -> None:
        """Do nothing: the sentences are generated as they are read."""

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yield the pairs of a split.

        Args:
            split: "train", "dev" or "test".
            download_dir: Not used.

        Raises:
            UserError: There is no such split.
        """
        check_split(split, self.splits)
        sources: set[str] = set()
        targets: set[str] = set()
        for earlier, size in self._sizes.items():
            pairs = _draw_new(random.Random(f"{self._seed} {earlier}"), size, sources, targets)
            if earlier == split:
                yield from pairs
                return
            for _ in pairs:
                pass


def _draw_new(
    rng: random.Random, number: int, sources: set[str], targets: set[str]
) -> Iterator[Pair]:
    """Yield pairs of which neither side is in `sources` or `targets`; add them there."""
    wanted = len(sources) + number
    while len(sources) < wanted:
        source, target = _draw(rng)
        if source not in sources and target not in targets:
            sources.add(source)
            targets.add(target)
            yield source, target


def _draw(rng: random.Random) -> Pair:
    """Fill the slots of a random frame with random pieces, different ones of the same kind."""
    frame = rng.choice(FRAMES)
    english: dict[str, str] = {}
    german: dict[str, str] = {}
    for slot in _slots(frame):
        pieces = _pieces(slot.rstrip("2"))
        piece = rng.choice(pieces)
        while piece[0] == english.get(slot.rstrip("2")):
            piece = rng.choice(pieces)
        english[slot], german[slot] = piece
    return frame[0].format_map(english), frame[1].format_map(german)


@functools.cache
def _slots(frame: Pair) -> tuple[str, ...]:
    """Return the slots of a frame in the order of its English side ("x" before "x2")."""
    return tuple(re.findall(r"{(\w+)}", frame[0]))


def _capacity(frame: Pair) -> int:
    """Return how many sentences a frame gives, each kind's pieces counted once."""
    return prod(len(_pieces(slot.rstrip("2"))) for slot in _slots(frame))


@functools.cache
def _pieces(kind: str) -> tuple[Pair, ...]:
    """Return all pieces of a kind, English and German; no English or German piece twice.

    Kinds are small enough that each piece, or each of its words, is common in train.
    """
    pieces = [(_plain_spaces(english), _plain_spaces(german)) for english, german in _KINDS[kind]()]
    return tuple(dict.fromkeys(pieces))


def _plain_spaces(text: str) -> str:
    """Replace the no-break spaces of CLDR, as most people type and most subword models read."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def _both(form: Callable[[_T, Locale], str], values: Iterable[_T]) -> Iterator[Pair]:
    """Format every value for English and for German."""
    for value in values:
        yield form(value, _ENGLISH), form(value, _GERMAN)


def _days_of(years: Iterable[int]) -> Iterator[datetime.date]:
    for year in years:
        first = datetime.date(year, 1, 1)
        length = (datetime.date(year + 1, 1, 1) - first).days
        yield from (first + datetime.timedelta(days=day) for day in range(length))


def _dates(pattern: str, values: Iterable[datetime.date]) -> Iterator[Pair]:
    return _both(lambda value, locale: dates.format_date(value, pattern, locale=locale), values)


def _days() -> Iterator[Pair]:
    return _both(
        lambda value, locale: dates.format_skeleton("MMMMd", value, locale=locale),
        _days_of([2024]),
    )


def _weekday_dates() -> Iterator[Pair]:
    for value in _days_of(range(2018, 2026)):
        yield (
            dates.format_date(value, "EEEE, MMMM d", locale=_ENGLISH),
            dates.format_date(value, "EEEE, 'dem' d. MMMM", locale=_GERMAN),
        )


def _times(hours: Iterable[int]) -> Iterator[Pair]:
    return _both(
        lambda value, locale: dates.format_time(value, "short", locale=locale),
        [datetime.time(hour, minute) for hour in hours for minute in range(0, 60, 5)],
    )


def _periods(units_of_time: Sequence[str], direction: int) -> Iterator[Pair]:
    """Format spans of time: 0 "3 days", 1 "in 3 days", -1 "3 days ago" (with the German case)."""
    # (seconds of the unit, largest number of it that Babel does not turn into the next unit)
    spans = {
        "minute": (60, 50),
        "hour": (3_600, 20),
        "day": (86_400, 5),
        "week": (604_800, 3),
        "month": (2_592_000, 10),
        "year": (31_536_000, 30),
    }
    deltas = [
        datetime.timedelta(seconds=(direction or 1) * number * spans[unit][0])
        for unit in units_of_time
        for number in range(2, spans[unit][1] + 1)
    ]
    return _both(
        lambda value, locale: dates.format_timedelta(
            value, add_direction=direction != 0, locale=locale
        ),
        deltas,
    )


def _quantities(names: Sequence[str], values: Sequence[float]) -> Iterator[Pair]:
    return _both(
        lambda item, locale: units.format_unit(item[1], item[0], "long", locale=locale),
        [(name, value) for name in names for value in values],
    )


def _prices(currencies: Sequence[str]) -> Iterator[Pair]:
    amounts = [number + cents for number in range(2, 100) for cents in (0.0, 0.25, 0.5, 0.99)]
    amounts += [100.0 * number for number in range(11, 100)]
    return _both(
        lambda item, locale: numbers.format_currency(item[1], item[0], locale=locale),
        [
            (code, amount)
            for code in currencies
            for amount in amounts
            if code != "JPY" or amount.is_integer()  # there is no hundredth of a yen
        ],
    )


def _money() -> Iterator[Pair]:
    return _both(
        lambda item, locale: (
            f"{numbers.format_decimal(item[1], locale=locale)} "
            f"{numbers.get_currency_name(item[0], count=item[1], locale=locale)}"
        ),
        [(code, number) for code in _UNINFLECTED for number in _ROUND_NUMBERS],
    )


def _percentages() -> Iterator[Pair]:
    return _both(
        lambda value, locale: numbers.format_percent(
            value, locale=locale, decimal_quantization=False
        ),
        [tenths / 1000 for tenths in [*range(11, 100), *range(100, 1000, 10)]],
    )


def _integers(values: Iterable[int]) -> Iterator[Pair]:
    return _both(lambda value, locale: numbers.format_decimal(value, locale=locale), values)


def _large_numbers() -> Iterator[Pair]:
    """Give e.g. "2.5 million" and "12 billion", in German "2,5 Millionen" and "12 Milliarden"."""
    factors = [tenths / 10 for tenths in range(21, 100) if tenths % 10] + list(range(2, 100))
    return _both(
        lambda value, locale: numbers.format_compact_decimal(
            value, format_type="long", locale=locale, fraction_digits=1
        ),
        [round(factor * unit) for unit in (10**6, 10**9) for factor in factors],
    )


def _in_pairs(kind: str) -> Iterator[Pair]:
    """Join every two different pieces of a kind: "Chile and Peru", "Chile und Peru"."""
    pieces = _pieces(kind)
    for first in pieces:
        for second in pieces:
            if first != second:
                yield (
                    lists.format_list([first[0], second[0]], locale=_ENGLISH),
                    lists.format_list([first[1], second[1]], locale=_GERMAN),
                )


_ROUND_NUMBERS = [*range(2, 100), *range(100, 1000, 50)]
_SMALL_NUMBERS = [*range(2, 51), *(tenths / 10 for tenths in range(15, 100, 10))]
_CLOCK = ("minute", "hour")
_CALENDAR = ("minute", "hour", "day", "week", "month", "year")

# Each kind of piece that a frame may ask for, as (English, German).
_KINDS: dict[str, Callable[[], Iterable[Pair]]] = {
    "name": lambda: [(name, name) for name in _NAMES.split()],
    "territory": lambda: _both(lambda code, locale: locale.territories[code], _TERRITORIES.split()),
    "territories": lambda: _in_pairs("territory"),
    "language": lambda: _both(lambda code, locale: locale.languages[code], _LANGUAGES.split()),
    "languages": lambda: _in_pairs("language"),
    "currency": lambda: _both(lambda code, locale: locale.currencies[code], _CURRENCIES),
    "date": lambda: _dates("long", _days_of(_YEARS)),
    "day": _days,
    "weekday_date": _weekday_dates,
    "weekday": lambda: _dates("EEEE", list(_days_of([2024]))[:7]),
    "month": lambda: _dates("MMMM", _days_of([2024])),
    "quarter": lambda: _dates("QQQQ", _days_of([2024])),
    "year": lambda: _dates("y", [datetime.date(year, 1, 1) for year in _YEARS]),
    "time": lambda: _times(range(24)),
    "morning": lambda: _times(range(6, 12)),
    "evening": lambda: _times(range(13, 23)),
    "duration": lambda: _periods(_CLOCK, 0),
    "in_time": lambda: _periods(_CALENDAR, 1),
    "ago": lambda: _periods(_CALENDAR, -1),
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
