"""Addresses, placeholders, tags, paths and options: what a translation keeps as it is."""

import re

# The rest of a URL. A bracket belongs to it if it is closed; punctuation at the end does not.
_REST = r"""(?:[^\s<>"()\u2e80-\uffef]|\([^\s<>"()\u2e80-\uffef]*\))*(?<=[\w/)])"""
_LETTER = r"[^\W\u2e80-\uffef]"
# Of HTML or XML. A name alone can be a corpus's tag, such as <news>.
TAG = (
    r"</?\d+/?>|</[a-z][^<>]*+>|<[a-z][\w:.-]*+(?:\s[^<>=]*+=[^<>]*+|[^<>]*+(?<=/))>"
    r"|<(?:[a-z]\w?|div|span|small|strong|code|mark|sub|sup|kbd|var|pre|link\d*)>"
)
# Each takes linear time, however a text repeats its beginning.
_KINDS = (
    # URLs, e-mail addresses, domains, @names
    rf"(?:(?<![a-z0-9])[a-z][a-z0-9+-]{{1,15}}://|(?<![a-z0-9_.])www\.)(?=[^\s\u2e80-\uffef]){_REST}",
    r"(?a:(?<![\w.+-])[\w.+-]++@[a-z0-9-]++(?:\.[a-z0-9-]++)+|(?<![\w@])@\w+(?:@[\w.-]*\w)?)",
    rf"(?<![a-z0-9_@./-])(?:[a-z0-9-]++\.)+(?:[a-z]{{2,24}}/{_REST}|(?:com|org|net|edu|de)\b)",
    # {{ name }}, {% name %}, ${name}, {0:.2f}, {count, plural, one {# page} other {# pages}}
    r"[%$#@]?(?:\{{2,3}[^{}]*\}{2,3}|\{[%#][^{}]*\})",
    r"[%$#@]?\{\s*[\w.$-]*+(?:\[\w*\])*\s*(?:[!:,|](?:[^{}]++|\{[^{}]*\})*+)?\}|[{}]",
    # Qt's %1, %name%; %1$s, %(name)d, %<name>s; %s, %-5.2lf, %dpx, but not "100%ig"
    r"(?a:%%|%L?\d{1,2}(?![\w$]|\.\d)|(?<![\d%])%[a-z_][\w.-]+%(?![\w%])"
    r"|%(?:\d{1,2}\$|\([\w.-]+\)|<\w+>)[-+#0',]*\d*(?:\.\d+)?[hljztq]{0,2}[a-z@]"
    r"|%[-+#0',]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hljztq]{0,2}[a-z@]"
    r"(?=(?:px|ms|[smhxk]|[kmg]b|min|st|nd|rd|th|r?em|pt)?(?![a-zß-öø-ÿа-яά-ώ])))",
    # $t(key), $name, $1, but not "$1.50" and "$1 million"
    r"(?a:\$\w*\([^()]*\)|\$[a-z_]\w*"
    r"|(?<![\w$])\$[1-9](?![\w.,]*\d|\w|\s?(?:[kmb]n?|mio|mrd)\b|\s?[mbt]r?illi))",
    # :name, :smile:, __name__, `name`, [X1X], entities, R&D, tags
    r"(?a:(?<![\w:])(?:(?::[\w+-]++:)++|:[a-z_]\w*)|(?<!\w)__\w+?__(?!\w)|`[^`\n]+`|\[X\d+X\])",
    rf"&(?:#x?[0-9a-f]+|[a-z][a-z0-9]+);|(?a:(?<![\w&])\w{{1,5}}&\w{{1,5}}(?!\w))|{TAG}",
    # --option=value, -o; /a/b, ~/a, ../a; a/b.c; C:\a and \\a\b
    r"""(?a:(?<![^\s"'“„«(\[|=,\u2e80-\uffef])"""
    r"""(?:--(?-i:[a-z])[\w-]*\w(?:=[\w./:@+-]*\w)?|-(?-i:[a-z])(?![\w-])))""",
    rf"""(?<![^\s"'“„«(\[|=,:\u2e80-\uffef])(?:~|\.\.?)?(?:/(?:{_LETTER}|[.+@~%-])*{_LETTER})+/?""",
    r"(?a:(?<![\w/.@-])(?:[\w.-]++/)++[\w-]++(?:\.[\w-]++)+)|(?a:(?<!\w))(?:[a-z]:|\\\\[\w.-]+)\\"
    rf"""(?:[^\\\s<>"|?*:]++(?: [\w.()-]++){{0,3}}\\)*(?:[^\\\s<>"|?*:\u2e80-\uffef]*{_LETTER})?""",
)
KEPT = re.compile("|".join(_KINDS), re.IGNORECASE)
# Stands in all that is kept, and in few sentences.
_HINT = re.compile(r"[%$@/\\{}<`&]|:[a-z_+]|\[X|__|\.[a-z]|-(?<!\w-)[a-z-]", re.IGNORECASE)


def masked(text: str) -> str:
    """Replaces what is kept by words of the same length."""
    has_any = _HINT.search(text)
    return KEPT.sub(lambda found: "X".ljust(len(found[0]), "x"), text) if has_any else text


def without_kept(text: str) -> str:
    """Returns a text without what is kept."""
    return KEPT.sub("", text) if _HINT.search(text) else text


def kept(text: str) -> list[str]:
    """Returns what a translation of a text keeps as it is, sorted."""
    return sorted(KEPT.findall(text)) if _HINT.search(text) else []
