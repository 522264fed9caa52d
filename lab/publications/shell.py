"""Parse shell scripts far enough to find the commands that they run, with their arguments. Nothing is executed.

The parser understands quotes, continuation lines, comments, here-documents, pipes and lists, variables that the script
itself sets, braces, ``for`` loops over words, ``sh -c '…'``, ``eval``, and commands inside ``$(…)``. Values that are
known only at run time (the output of a command, an argument, an environment variable) remain in a word as written, and
are marked as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import FormatVersion
from lab.gates.text import shortened
from lab.tomlfile import read_toml
from lab.units import KIB

MOST_COMMANDS = 4096
_MOST_STEPS = 200_000
"""Maximum number of statements and words, with loops expanded."""
_MOST_TEXT = 256 * KIB
_MOST_BRACES = 256
_MOST_DEPTH = 12
_META = set(" \t\n;&|<>()")
_OPERATOR = re.compile(r"<<<|<<-|&>>|<<|>>|>&|<&|&>|<>|>\||\|&|&&|\|\||;;|[;&|<>()]")
_REDIRECTIONS = {"<", ">", ">>", ">&", "<&", "&>", "&>>", "<>", ">|", "<<<"}
_WRITES = {">", ">>", "&>", "&>>", ">|"}
_BREAKS = {";", "&", "&&", "||", "\n", ";;"}
_DECLARES = {"export", "local", "declare", "readonly", "typeset"}
_OPENS = {"if": "fi", "while": "done", "until": "done", "case": "esac", "select": "done"}
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,79}"
_ASSIGNMENT = re.compile(rf"({_NAME})(\+?)=")
_NAMED = re.compile(_NAME)


class _Prefix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    with_value: tuple[str, ...] = ()
    operands: int = 0


class _Programs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    shells: frozenset[str]
    carriers: frozenset[str]
    cutters: frozenset[str]
    wipers: frozenset[str]
    prefixes: dict[str, _Prefix]


@cache
def programs() -> _Programs:
    """Return the programs that the lint knows (programs.toml)."""
    return read_toml(Path(__file__).with_name("programs.toml"), _Programs)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word, which is text, a variable (``name``), or a value that is known only at run time (``raw``)."""

    text: str = ""
    name: str = ""
    raw: str = ""
    is_quoted: bool = False
    inner: str = ""
    """The commands in a command substitution."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or an operator, and the line that it is on."""

    line: int
    operator: str = ""
    pieces: tuple[Piece, ...] = ()
    heredoc: tuple[str, bool] | None = None
    """The text of the here-document after ``<<``, and whether variables in it are expanded."""

    @property
    def plain(self) -> str:
        """The word, or an empty string if a part of it is quoted or expanded."""
        first = self.pieces[0] if len(self.pieces) == 1 else Piece()
        return first.text if not (first.is_quoted or first.name or first.raw) else ""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command. ``unknown`` is the first part that is known only at run time, as it is written."""

    text: str
    unknown: str = ""
    is_bare: bool = False
    """Whether the word may expand to any number of words, because its value is unknown and it is not quoted."""
    has_glob: bool = False


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One simple command, and the commands that its output is piped to."""

    words: tuple[Word, ...]
    line: int = 1
    pipes_to: tuple[str, ...] = ()
    writes_to: str = ""
    """The target file of an output redirection."""
    stdin: str | None = None
    """The content of a here-document or here-string."""
    is_conditional: bool = False
    """Whether the command may run any number of times, as in a branch, a function or a loop of unknown length."""

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)

    @property
    def program(self) -> str:
        return self.words[0].text.rpartition("/")[2]

    def option(self, name: str) -> str | None:
        """Return the value of an option written as ``name=value`` or ``name value``, or None if it is not given.

        ``name`` includes any dashes.
        """
        argv = self.argv
        for index, word in enumerate(argv):
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
            if word == name and index + 1 < len(argv):
                return argv[index + 1]
        return None


def bare_unknown(words: Iterable[Word]) -> str:
    """Return the first unknown part that may expand to any number of words, or "" if there is none."""
    return next((word.unknown for word in words if word.is_bare), "")


@dataclass
class Script:
    """The commands of a script, in order and with loops expanded."""

    commands: list[ShellCommand] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """The contents of the files that are written from here-documents, by their names."""
    steps: int = 0
    """The number of statements and words that were processed, with loops expanded."""


def read_script(text: str) -> Script:
    """Parse a script. Raises SpecError if a quote is not closed, or if the script or its loops are too long."""
    if len(text) > _MOST_TEXT:
        raise SpecError("the script is too long", hint="lint parts of it separately")
    script = Script()
    _Runner(script, {}).run(list(_Lexer(text).tokens()))
    return script


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1
        self._pending: list[tuple[int, str, bool, bool]] = []
        self._tokens: list[Token] = []

    def tokens(self) -> list[Token]:
        while self._at < len(self._text):
            self._step()
        self._read_heredocs()
        return self._tokens

    def _step(self) -> None:
        text, at = self._text, self._at
        if text.startswith("\\\n", at):
            self._at, self._line = at + 2, self._line + 1
        elif text[at] == "\n":
            self._tokens.append(Token(self._line, "\n"))
            self._at, self._line = at + 1, self._line + 1
            self._read_heredocs()
        elif text[at].isspace():
            self._at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif operator := _OPERATOR.match(text, at):
            self._at = operator.end()
            self._tokens.append(Token(self._line, operator[0]))
        else:
            self._word()

    def _word(self) -> None:
        line, pieces = self._line, list(self._pieces())
        before = self._tokens[-1].operator if self._tokens else ""
        self._tokens.append(Token(line, "", tuple(pieces)))
        if before in ("<<", "<<-"):
            end = "".join(piece.text or piece.raw for piece in pieces)
            expands = not any(piece.is_quoted for piece in pieces)
            self._pending.append((len(self._tokens) - 1, end, expands, before == "<<-"))

    def _read_heredocs(self) -> None:
        for place, end, expands, strips in self._pending:
            lines = []
            while self._at < len(self._text):
                close = self._text.find("\n", self._at)
                line = self._text[self._at : close if close >= 0 else len(self._text)]
                self._at, self._line = self._at + len(line) + 1, self._line + 1
                if strips:
                    line = line.lstrip("\t")
                if line == end:
                    break
                lines.append(line)
            self._tokens[place] = replace(self._tokens[place], heredoc=("\n".join(lines) + "\n", expands))
        self._pending = []

    def _pieces(self, *, quoted: bool = False) -> Iterator[Piece]:
        """Yield the pieces up to the end of the word, or up to the closing double quote."""
        gathered = ""
        while self._at < len(self._text):
            char = self._text[self._at]
            if (quoted and char == '"') or (not quoted and char in _META):
                break
            if char in "$`" or (char in "'\"\\" and not (quoted and char == "'")):
                if gathered:
                    yield Piece(gathered, is_quoted=quoted)
                    gathered = ""
                yield from self._special(char, quoted=quoted)
            else:
                self._line += char == "\n"
                gathered += char
                self._at += 1
        if gathered:
            yield Piece(gathered, is_quoted=quoted)

    def _special(self, char: str, *, quoted: bool) -> Iterator[Piece]:
        text = self._text
        if char == "\\":
            following = text[self._at + 1 : self._at + 2]
            self._at, self._line = self._at + 2, self._line + (following == "\n")
            is_literal = quoted and following not in '$`"\\\n'
            yield Piece(("\\" if is_literal else "") + following.replace("\n", ""), is_quoted=True)
        elif char == "'":
            yield Piece(self._until("'", self._at + 1), is_quoted=True)
        elif char == '"':
            start = self._at
            self._at += 1
            yield Piece("", is_quoted=True)
            yield from self._pieces(quoted=True)
            if self._at >= len(text):
                raise self._open(start)
            self._at += 1
        elif char == "`":
            body = self._until("`", self._at + 1)
            yield Piece(raw=f"`{body}`", inner=body, is_quoted=quoted)
        else:
            yield self._dollar(quoted=quoted)

    def _dollar(self, *, quoted: bool) -> Piece:
        text, at = self._text, self._at
        if text.startswith("$'", at) and not quoted:
            return Piece(self._until("'", at + 2), is_quoted=True)
        if text.startswith("$(", at):
            body = self._balanced(at + 1, "(", ")")
            is_sum = body.startswith("(")
            return Piece(raw="$((…))" if is_sum else "$(…)", inner="" if is_sum else body, is_quoted=quoted)
        if text.startswith("${", at):
            body = self._balanced(at + 1, "{", "}")
            found = re.fullmatch(rf"({_NAME})(?::?-.*)?", body, re.DOTALL)
            return Piece(name=found[1] if found else "", raw=f"${{{body}}}", is_quoted=quoted)
        if found := _NAMED.match(text, at + 1):
            self._at = found.end()
            return Piece(name=found[0], raw=f"${found[0]}", is_quoted=quoted)
        following = text[at + 1 : at + 2]
        if following and following in "@*#?$!-0123456789":
            self._at += 2
            return Piece(raw=f"${following}", is_quoted=quoted)
        self._at += 1
        return Piece("$", is_quoted=True)

    def _until(self, end: str, start: int) -> str:
        close = self._text.find(end, start)
        while end == "`" and close >= 0 and self._text[close - 1] == "\\":
            close = self._text.find(end, close + 1)
        if close < 0:
            raise self._open(start - 1)
        body = self._text[start:close]
        self._at, self._line = close + 1, self._line + body.count("\n")
        return body

    def _balanced(self, start: int, opens: str, closes: str) -> str:
        """Return the text between the bracket at ``start`` and its closing bracket, ignoring brackets in quotes."""
        depth, at, quote = 0, start, ""
        while at < len(self._text):
            char = self._text[at]
            if char == "\\":
                at += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char in opens + closes:
                depth += 1 if char == opens else -1
                if not depth:
                    body = self._text[start + 1 : at]
                    self._at, self._line = at + 1, self._line + body.count("\n")
                    return body
            at += 1
        raise self._open(start)

    def _open(self, start: int) -> SpecError:
        begin = self._text.rfind("\n", 0, start) + 1
        line = shortened(self._text[begin:].partition("\n")[0])
        return SpecError(f"a quote or bracket in the recipe is not closed: {line}", hint="close it on that line")


class _Runner:
    """Interprets tokens, and collects the commands, with the known values of variables filled in."""

    def __init__(
        self, script: Script, variables: dict[str, str | None], *, depth: int = 0, is_conditional: bool = False
    ) -> None:
        self._script, self._variables = script, variables
        self._depth, self._is_conditional = depth, is_conditional

    def run(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            at = self._statement(tokens, at)

    def _statement(self, tokens: Sequence[Token], at: int) -> int:
        """Process one command, loop or branch, and return the index of the next one."""
        self._script.steps += 1
        if self._script.steps > _MOST_STEPS:
            raise _too_long()
        token = tokens[at]
        if token.operator in (*_BREAKS, "(", ")"):
            return at + 1
        word = token.plain
        if word == "for" or word in _OPENS:
            end = _end_of(tokens, at, "done" if word == "for" else _OPENS[word])
            inside = tokens[at + 1 : end]
            if word == "for":
                self._loop(inside)
            else:
                self._inner(_without_patterns(inside) if word == "case" else inside)
            return end + 1
        is_function = word == "function" or (word and [each.operator for each in tokens[at + 1 : at + 3]] == ["(", ")"])
        if is_function:
            start = next((place for place in range(at, len(tokens)) if tokens[place].plain == "{"), len(tokens) - 1)
            end = _end_of(tokens, start, "}")
            self._inner(tokens[start + 1 : end])
            return end + 1
        if word in ("{", "}", "!", "then", "else", "elif", "do", "fi", "done", "esac", "[["):
            return at + 1
        end = at
        while end < len(tokens) and tokens[end].operator not in (*_BREAKS, "(", ")"):
            end += 1
        self._script.steps += end - at
        self._pipeline(tokens[at:end])
        return end

    def _inner(self, tokens: Sequence[Token]) -> None:
        """Process tokens that may run any number of times. The variables that they change become unknown."""
        before = dict(self._variables)
        self._run_inside(tokens, is_conditional=True)
        for name, value in self._variables.items():
            if before.get(name, "\0") != value:
                self._variables[name] = None

    def _run_inside(self, tokens: Sequence[Token], *, is_conditional: bool) -> None:
        if self._depth < _MOST_DEPTH:
            inner = _Runner(self._script, self._variables, depth=self._depth + 1, is_conditional=is_conditional)
            inner.run(tokens)

    def _loop(self, tokens: Sequence[Token]) -> None:
        """Process a ``for`` loop, given as its tokens ``NAME in WORDS ; do BODY``."""
        start = next((place for place, each in enumerate(tokens) if each.plain == "do"), None)
        if start is None:
            return
        head, body = tokens[:start], tokens[start + 1 :]
        name = head[0].plain if head else ""
        is_name = _NAMED.fullmatch(name)
        words = [word for each in head[2:] if each.pieces for word in self._expanded(each)]
        if not is_name or len(head) < 2 or head[1].plain != "in" or any(word.unknown for word in words):
            self._variables |= {name: None} if is_name else {}
            self._inner(body)
            return
        for word in words:
            self._variables[name] = word.text
            self._run_inside(body, is_conditional=self._is_conditional or word.has_glob)

    def _pipeline(self, tokens: Sequence[Token]) -> None:
        stages: list[list[Token]] = [[]]
        for token in tokens:
            if token.operator in ("|", "|&"):
                stages.append([])
            else:
                stages[-1].append(token)
        commands = [found for stage in stages if (found := self._simple(stage))]
        last = commands[-1].writes_to if commands else ""
        for place, command in enumerate(commands):
            following = tuple(each.program for each in commands[place + 1 :])
            self._take(replace(command, pipes_to=following, writes_to=command.writes_to or last))

    def _take(self, command: ShellCommand) -> None:
        if len(self._script.commands) >= MOST_COMMANDS:
            raise _too_long()
        self._script.commands.append(command)
        if command.stdin is not None and command.program in ("cat", "tee") and not command.is_conditional:
            target = command.writes_to if command.program == "cat" else (command.argv[-1] if command.argv[1:] else "")
            if target:
                self._script.files[target] = command.stdin
        inner = self._text_of_shell(command)
        if inner is not None:
            self._nested(inner, command.line)

    def _text_of_shell(self, command: ShellCommand) -> str | None:
        """Return the script that ``sh -c``, ``eval`` or a shell's here-document runs, or None for other commands."""
        words = command.words
        if command.program == "eval" and not any(word.unknown for word in words):
            return " ".join(word.text for word in words[1:])
        if command.program not in programs().shells:
            return None
        if "-c" in command.argv:
            place = command.argv.index("-c") + 1
            if place < len(words) and not words[place].unknown:
                return words[place].text
        return command.stdin if len(words) == 1 else None

    def _nested(self, text: str, line: int) -> None:
        if self._depth < _MOST_DEPTH:
            tokens = [replace(token, line=line) for token in _Lexer(text).tokens()]
            self._run_inside(tokens, is_conditional=self._is_conditional)

    def _simple(self, tokens: Sequence[Token]) -> ShellCommand | None:
        words: list[Word] = []
        writes_to, stdin, take = "", None, ""
        for place, token in enumerate(tokens):
            if token.operator:
                take = token.operator
                # A number directly before a redirection is a file descriptor, not a word.
                if take in _REDIRECTIONS and place and words and words[-1].text.isdigit() and tokens[place - 1].plain:
                    words.pop()
                continue
            for piece in token.pieces:
                if piece.inner.strip():
                    self._nested(piece.inner, token.line)
            if token.heredoc is not None:
                stdin = self._heredoc(*token.heredoc)
            elif take in _REDIRECTIONS:
                found = self._expanded(token)
                if take in _WRITES and found:
                    writes_to = found[0].text
                elif take == "<<<" and found:
                    stdin = found[0].text + "\n"
            else:
                words += self._expanded(token)
            take = ""
        words = self._assigned(words)
        if not words:
            return None
        named, line = tuple(_without_prefixes(words)), tokens[0].line
        return ShellCommand(named, line, writes_to=writes_to, stdin=stdin, is_conditional=self._is_conditional)

    def _heredoc(self, text: str, expands: bool) -> str:
        if not expands:
            return text

        def known(found: re.Match[str]) -> str:
            return self._variables.get(found[1] or found[2]) or found[0]

        return re.sub(rf"\$(?:({_NAME})|\{{({_NAME})\}})", known, text)

    def _assigned(self, words: list[Word]) -> list[Word]:
        """Record the assignments at the beginning of a command, and return the remaining words."""
        start = 1 if words and words[0].text in _DECLARES else 0
        place = start
        while place < len(words) and (found := _ASSIGNMENT.match(words[place].text)):
            place += 1
            if start or all(_ASSIGNMENT.match(word.text) for word in words):
                self._assign(found[1], words[place - 1], is_more=bool(found[2]))
        if words and words[0].text == "read":
            self._variables.update(dict.fromkeys((word.text for word in words[1:] if word.text.isidentifier()), None))
        return [] if start else words[place:]

    def _assign(self, name: str, word: Word, *, is_more: bool) -> None:
        value = None if word.unknown else word.text.partition("=")[2]
        if is_more:
            before = self._variables.get(name)
            value = None if before is None or value is None else before + value
        self._variables[name] = value

    def _expanded(self, token: Token) -> list[Word]:
        if len(token.pieces) == 1 and not (piece := token.pieces[0]).raw and not _ACTS.search(piece.text):
            return [Word(piece.text)]
        fields: list[list[tuple[str, bool]]] = [[]]
        unknown = ""
        is_bare = all(piece.raw and not piece.is_quoted for piece in token.pieces)
        is_list = any((piece.is_quoted and piece.raw in ("$@", "${@}")) or "[@]" in piece.raw for piece in token.pieces)
        is_assignment = bool(token.pieces and _ASSIGNMENT.match(token.pieces[0].text))
        for piece in token.pieces:
            value = piece.text
            if piece.raw:
                known = self._variables.get(piece.name)
                if known is None:
                    unknown = unknown or piece.raw
                    fields[-1].append((piece.raw, True))
                    continue
                value, is_bare = known, False
                if not piece.is_quoted and not is_assignment:
                    several = value.split()
                    if several and not value[0].isspace():
                        fields[-1].append((several.pop(0), False))
                    fields += [[(each, False)] for each in several]
                    continue
            fields[-1].append((value, piece.is_quoted))
        is_shown, may_be_many = any(piece.is_quoted for piece in token.pieces), (is_bare or is_list) and bool(unknown)
        return [
            Word(text, unknown, may_be_many, has_glob)
            for parts in fields
            if parts or is_shown
            for text, has_glob in _braces(parts)
        ]


def _too_long() -> SpecError:
    return SpecError("the recipe's loops have too many iterations to follow", hint="lint parts of it separately")


def _end_of(tokens: Sequence[Token], start: int, closer: str) -> int:
    """Return the index of the token that closes the construct at ``start``, or of the last token if none closes it."""
    opens = {"done": ("for", "while", "until", "select"), "fi": ("if",), "esac": ("case",), "}": ("{",)}[closer]
    depth, is_first = 0, True
    for place in range(start, len(tokens)):
        word = tokens[place].plain
        # A reserved word counts only at the beginning of a command.
        begins = is_first or place == start
        if begins and word in opens:
            depth += 1
        elif begins and word == closer:
            depth -= 1
            if not depth:
                return place
        is_first = bool(tokens[place].operator) or word in ("do", "then", "else", "{", "!", "time")
    return len(tokens) - 1


def _without_patterns(tokens: Sequence[Token]) -> list[Token]:
    """Remove the word and the patterns of a ``case``, but not those of a ``case`` that is nested in it."""
    remaining: list[Token] = []
    is_pattern, depth = True, 0
    for token in tokens:
        if not is_pattern:
            depth += {"case": 1, "esac": -1}.get(token.plain, 0)
            remaining.append(token)
            is_pattern = token.operator == ";;" and not depth
        elif token.operator == ")":
            is_pattern = False
    return remaining


def _without_prefixes(words: list[Word]) -> list[Word]:
    """Remove prefixes such as ``sudo``, ``time`` and ``env X=1`` from a command, with the options of these prefixes."""
    while prefix := programs().prefixes.get(words[0].text.rpartition("/")[2]):
        rest = words[1:]
        while rest and (rest[0].text.startswith("-") or _ASSIGNMENT.match(rest[0].text)):
            if rest.pop(0).text in prefix.with_value and rest:
                rest.pop(0)
        rest = rest[prefix.operands :]
        if not rest:
            return words
        words = rest
    return words


_ACTING = "{},*?["
_ACTS = re.compile(r"[{*?[]")
_HIDDEN = {ord(char): chr(0xE000 + place) for place, char in enumerate(_ACTING)}
"""Placeholders for quoted braces, commas and wildcards, which are not expanded."""
_SHOWN = {0xE000 + place: char for place, char in enumerate(_ACTING)}


def _braces(parts: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Expand ``{a,b}`` and ``{1..4}``, and return each word together with whether it contains a wildcard."""
    text = "".join([part for part, _ in parts])
    if not _ACTS.search(text):
        # This is the usual case, and must be fast because loops may run over thousands of words.
        return [(text, False)]
    text = "".join(part.translate(_HIDDEN) if is_quoted else part for part, is_quoted in parts)
    return [(word.translate(_SHOWN), any(sign in word for sign in "*?[")) for word in _brace_words(text)]


def _brace_words(text: str) -> list[str]:
    """Expand braces, from the outermost inwards."""
    done, waiting = [], [(text, 0)]
    while waiting:
        word, start = waiting.pop(0)
        opening = word.find("{", start)
        closing = _closing(word, opening) if opening >= 0 else -1
        if closing < 0:
            done.append(word)
            continue
        choices = _choices(word[opening + 1 : closing])
        if len(done) + len(waiting) + len(choices) > _MOST_BRACES:
            raise SpecError(
                "the brace expressions of the recipe expand to too many words", hint="lint parts of it separately"
            )
        if choices:
            waiting = [(word[:opening] + each + word[closing + 1 :], opening) for each in choices] + waiting
        else:
            waiting.insert(0, (word, opening + 1))
    return done


def _closing(word: str, opening: int) -> int:
    depth = 0
    for place in range(opening, len(word)):
        depth += {"{": 1, "}": -1}.get(word[place], 0)
        if not depth:
            return place
    return -1


def _split(inner: str) -> list[str]:
    """Split at the commas that are not in nested braces."""
    parts, depth = [""], 0
    for char in inner:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _choices(inner: str) -> list[str]:
    if len(parts := _split(inner)) > 1:
        return parts
    found = re.fullmatch(r"([0-9]{1,6}|[A-Za-z])\.\.([0-9]{1,6}|[A-Za-z])(?:\.\.([0-9]{1,4}))?", inner)
    if not found or found[1].isdigit() != found[2].isdigit():
        return []
    step = int(found[3] or 1) or 1
    as_number: Callable[[str], int] = int if found[1].isdigit() else ord
    first, last = as_number(found[1]), as_number(found[2])
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if not found[1].isdigit():
        return list(map(chr, numbers))
    width = len(found[1]) if found[1].startswith("0") and len(found[1]) > 1 else 0
    return [str(number).zfill(width) for number in numbers[: _MOST_BRACES + 1]]
