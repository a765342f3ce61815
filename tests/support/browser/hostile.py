"""Texts that attack a page: markup, scripts, styles, links, directions of writing, and sizes."""

from typing import Final

ATTACKS: Final = (
    "<script>window.canary = 1; alert(1)</script>",
    "</script><script>window.canary = 2</script>",
    "<img src=x onerror='window.canary = 3'>",
    "<svg onload=window.canary=4><script>window.canary = 5</script></svg>",
    "<style>* { display: none !important }</style><link rel=stylesheet href=https://attacker.invalid/x.css>",
    "</main></body></html><iframe srcdoc='<script>parent.canary = 6</script>'></iframe>",
    "<base href=https://attacker.invalid/><form action=https://attacker.invalid/><button>Approve</button></form>",
    "[a link](javascript:window.canary=7) <a href=javascript:window.canary=8>a link</a> javascript:window.canary=9",
    "![a picture](https://attacker.invalid/pixel.png) <https://attacker.invalid/>",
    "\" onmouseover=\"window.canary=10\" data-step='0' ' style='position:fixed;inset:0'",
    "{{constructor.constructor('window.canary=11')()}} ${window.canary=12} <%= 13 %>",
    "&lt;b&gt; &amp; &#x3C;b> &nbsp;|",
    "a\u202ereversed\u202c b \u2066isolated\u2069 c \u200fright\u200f שלום עולם مرحبا",
    "two  spaces, a tab\t, a return\r\n, no\u2028line, no\u00a0break, zero\u200bwidth, nothing\ufeff",
    "a bell\u0007, \u001b[31mred\u001b[0m",
    "e\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308 👩‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 𝒻𝓊𝓁𝓁 ﷽",
    "  leading and trailing spaces  \n\n\n",
)
"""One attack each. `window.canary` is set if a page runs one of them."""
LONG_WORD: Final = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 60
HOSTILE_TEXT: Final = "\n".join([*ATTACKS, LONG_WORD])
HOSTILE_TITLE: Final = "<img src=x onerror=window.canary=20> \u202eeltit <b>bold</b> " + "w" * 100
"""At most 200 characters."""


def split_hostile(size: int = 7) -> list[str]:
    """Return the text in chunks that cut tags, entities and combined characters in two."""
    return [HOSTILE_TEXT[at : at + size] for at in range(0, len(HOSTILE_TEXT), size)]
