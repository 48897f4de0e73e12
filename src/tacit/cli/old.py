"""Options that have another name now. They work with a warning until 0.3 (docs/stability.md)."""

from __future__ import annotations

from collections.abc import Iterator

_ALPHA_IS_BETA = ("ra-admm", "ra-gd", "rcd")  # the rate of paper 003
_GONE = ("--alpha", "--gamma", "--growth")


def renamed(command: str | None, args: list[str]) -> list[str]:
    """The arguments of a command, with parameters of a method as --set has them.

    >>> renamed("plan", ["mr-admm", "--alpha", "2", "--growth=1.1", "--penalty", "3"])  # doctest: +NORMALIZE_WHITESPACE
    ['mr-admm', '--set', 'alpha=2', '--set', 'penalty={kind="geometric",first=3.0,ratio=1.1}']
    """
    if command != "plan" or not any(word.partition("=")[0] in _GONE for word in args):
        return args
    given = list(_pairs(args))
    values = dict(given)
    found: list[str] = []
    for name, value in given:
        if name == "--alpha" and value is not None:
            found += ["--set", f"{'beta' if any(word in _ALPHA_IS_BETA for word in args) else 'alpha'}={value}"]
        elif name == "--gamma" and value is not None:
            found += ["--set", f"gamma={value}"]
        elif name == "--growth" and value is not None:
            first = _number(values.get("--penalty"))
            found += ["--set", f'penalty={{kind="geometric",first={first},ratio={value}}}']
        elif not (name == "--penalty" and "--growth" in values):
            found += [name] if value is None else [name, value]
    return found


def used(args: list[str]) -> list[str]:
    """The old options among the arguments."""
    return [word.partition("=")[0] for word in args if word.partition("=")[0] in _GONE]


def _pairs(args: list[str]) -> Iterator[tuple[str, str | None]]:
    """Options that have a value with it; every other word by itself."""
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if name in (*_GONE, "--penalty"):
            yield name, value if equals else next(words, None)
        else:
            yield word, None


def _number(text: str | None) -> str:
    try:
        return str(float(text or 1.0))
    except ValueError:
        return str(text)
