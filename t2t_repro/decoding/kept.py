"""Addresses, placeholders, tags, paths and options, which a translation keeps as they are."""

import re

# In ASCII mode: \w and \s stop at the letters of scripts without blanks, which follow directly.
_LETTER = r"[\w\u00c0-\u1fff]"
# Before it stands white space, an opening bracket or quotation mark, or such a letter.
_START = r"""(?<![^\s\xa0"'“„«(\[|=,\u2e80-\uffff])"""
# The rest of a URL. A bracket belongs to it if it is closed; punctuation at the end does not.
_URL = r"""(?:[^\s\xa0<>"()\u2000-\uffff]|\([^\s<>"()]*\))+(?<=[\w\u00c0-\u1fff/)])"""
# Of HTML or XML. Other names alone can be a corpus's tag, such as <news>, or a placeholder: <file>;
# not in <link>here</link>.
_NAME = (
    r"[a-z]\w?|abbr|big|blockquote|body|center|code|del|div|head|html|ins|kbd|nobr|pre|samp|small"
    r"|span|strong|su[bp]|title|wbr"
)
_ENDS = r"(?=>(?:<\w[^<>]*+>){0,2}[^<>]*+</)"
TAG = rf"<(?:/?\d+|/[a-z][^<>]*+|[a-z\d][^<>=/]*+[=/][^<>]*+|{_NAME}|[a-z][\w.-]*+{_ENDS})>"
# Emoji, arrows, and the marks of directions that come in pairs.
_SIGNS = r"\u202a-\u202e\u2066-\u2069\u2190-\u21ff\u2300-\u23ff\u25a0-\u2bff\U0001f000-\U0001faff"
_BRACES = r"\{[^{}]*+\}"
for _ in range(4):
    _BRACES = rf"\{{(?:[^{{}}]++|{_BRACES})*+\}}"
# Each takes linear time, however a text repeats its beginning. No groups that capture: `kept` needs
# `findall` to return whole parts.
_KINDS = (
    # URLs, domains, e-mail addresses, user@host:~$, @names and #names
    rf"(?<![^\W_])(?:[a-z][a-z0-9+-]{{1,15}}://|www\.){_URL}",
    rf"(?<![\w@./-])(?:(?:{_LETTER}|-)++\.)+(?:[a-z]{{2,24}}/{_URL}|(?:com|org|net|edu|app|de|dev|eu|fr|gov|info|io|nl|uk)\b)",
    rf"(?<![\w.+@-])(?<!{_LETTER})(?:(?:mailto:)?(?:{_LETTER}|[.+-])++@(?:{_LETTER}|-)+|@@\w+@@|@{_LETTER}+)"
    rf"(?:[.@]{_LETTER}(?:{_LETTER}|-)*)*(?::[~/][\w/.-]*[$#]|:\w[\w.-]*/[\w./-]*\w)?",
    rf"(?<![\w&#/])(?:#[a-z\u00c0-\u1fff]{_LETTER}*)+",
    # Links of Markdown: [text](address); of i18n: @:key, @.lower:key, @:(key)
    r"\]\([^\s()]+\)|@(?:\.\w+)?:(?:[a-z_](?:[\w.-]*\w)?|\([\w.]+\))",
    # {1>here<1}, a tag; braces in braces: {{ name }}, ${name}, {0:.2f}, {n, plural, one {#}}
    rf"\{{\d+>|<\d+\}}|(?:[%$#]|@:?)?{_BRACES}",
    # %user.name%; Qt's %1; %1%; %s, %1$s, %(name)d, %-5.2lf, %dpx, %name, but not "100%ig"
    r"%%(?:\w+%%)?|(?<!\d)%[a-z_][\w.-]+%(?![\w%(<>])(?:\\[\w.-]*\w)*|%\d{1,2}(?:%|![a-z]+!)?(?![\w$]|\.\d)"
    r"|%(?!ig|-[a-z]{2})(?:\d{1,2}\$|\([\w. -]+\)|<\w+>)?[-+#0',]*+[\d*]*+(?:\.[\d*]++)?"
    r"(?:(?-i:[hljztq]{0,2}[cdfisu](?![a-z]))|(?<!\d%)[a-z_]\w*|@)",
    # $t(key), $name, $name$, $1, but not "$1.50" and "$1 million"
    r"\$(?:\w*\([^()]*\)|[a-z_]\w*(?:\$|(?:/[\w.-]*\w)+)?|[1-9](?!\w|[.,]\d|\s\w*illi))",
    # :name, :smile:, __name__, name(), `name`, entities, tags
    rf"(?<!:)(?<!{_LETTER}):(?:(?:[\w+-]+:)+(?::[\w+-]+:)*|[a-z_]\w*)|(?<!\w)(?:__\w+?__|##\w+?##)(?!\w)",
    rf"(?<![\w.\u00c0-\u1fff])[a-z_][\w.]*+\(\)|(?<!`)`++[^`\n]*[^\s`]`++|&#?\w+;|{TAG}",
    # [X1X], [[1]], [1], [x]
    r"\[(?:X\d+X|\[\w+\]|[ x]?|\d[\d:., -]*)\]",
    # Signs, but not those that end a sentence
    rf"[<[][%?][^<>[]*?[%?][>\]]|(?<![.!?。！？…{_SIGNS}\u200d\ufe0f])[{_SIGNS}][{_SIGNS}\u200d\ufe0f]*+",
    # 10.0.0.1:80, but not a German 1.000.000.000; config.yaml, .gitignore
    r"(?<![\w.])(?!\d+(?:\.\d{3}){3})\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d+)?(?![\w.]*\d)"
    r"|(?<![\w/.@-])[\w-]++\.(?:[\w-]+\.)*(?:bat|cfg|conf|css|csv|deb|dll|docx?|exe|gif|gz|html?|ini|jar"
    r"|java|jpe?g|js|json|md|mp[34]|odt|pdf|php|png|po|py|rpm|sh|sql|svg|txt|xlsx?|xml|ya?ml|zip)\b",
    rf"{_START}\.[a-z]\w*+(?:[./]\w++)*",
    # \n; --option, -o; a/b.c; /a/b, ~/a, ../a, C:\a, \\a\b, where names may have blanks before \
    r"(?-i:(?<=[\w.!?,;>)\]}])\\[nrt]|\\[nrt](?![a-z]))",
    rf"{_START}(?:--[a-z][\w-]*\w(?:=[\w./:@+-]*\w)?|-(?-i:[a-z])(?![\w-]))",
    r"(?<![\w/.@-])(?:[\w.-]++/)++[\w-]++(?:\.[\w-]++)+",
    rf"(?:{_START}|(?<=:))(?:~|\.\.?|[a-z]:|\\)?"
    rf"(?:[/\\](?:{_LETTER}|[.+@~%*-])*{_LETTER}(?:(?: [\w()]+){{1,2}}(?=\\))?)+[/\\]?",
)
KEPT = re.compile("|".join(_KINDS), re.IGNORECASE | re.ASCII)
# A text without the white space and punctuation at its ends.
_INSIDE = r"[^\s!-/:-@[-`{-~«»¿¡\u2010-\u2060\u3001-\u303f\uff01-\uff0f\uff1a-\uff20]"
WORDS = re.compile(rf"{_INSIDE}(?:.*{_INSIDE})?", re.DOTALL)
# A quick look: ordinary sentences have none of these.
_HINT = re.compile(rf"(?ia)[][%$@/\\{{<`&#{_SIGNS}]|:[a-z_+]|__|\.[a-z\d(]|\(\)|-(?<!\w-)[a-z-]")


def masked(text: str, filler: str = "X") -> str:
    """Returns a text of the same length, with `filler` for each character of its kept parts.

    "See www.x.com now." becomes "See XXXXXXXXX now."
    """
    return KEPT.sub(lambda part: filler * len(part[0]), text) if _HINT.search(text) else text


def kept(text: str) -> list[str]:
    """Returns the parts that a translation has to keep, sorted, as it may change their order."""
    return sorted(KEPT.findall(text)) if _HINT.search(text) else []
