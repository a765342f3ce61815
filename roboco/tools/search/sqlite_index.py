"""SqliteIndex: the passages of one task in an SQLite file, with their terms in a full-text index."""

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.errors import UsageError
from roboco.tools.search.analyzer import normalize, spelling
from roboco.tools.search.passage import Passage
from roboco.tools.search.query import MIN_MEMBER_CHARS, long_terms, match_expression, may_be_compound
from roboco.tools.search.result import PartKind, SearchFilters
from roboco.tools.search.vector import Vector

LAYOUT_VERSION = 1
"""The version of the tables. A file of another layout, or with other stemmers, is thrown away."""
_MAX_COMPOUNDS = 20
"""Maximum number of compounds to which a query's word is expanded."""
_TABLES = (
    "CREATE TABLE layout (name TEXT)",
    "CREATE TABLE reached (seq INTEGER, digest TEXT)",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, seq INTEGER, step_id TEXT, agent TEXT, part TEXT, at REAL,"
    " uri TEXT, offset INTEGER, text TEXT)",
    "CREATE TABLE artifacts (uri TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE compounds (word TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE vectors (model TEXT, hash BLOB, vector BLOB, PRIMARY KEY (model, hash)) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE terms USING fts5(spelled, content='', tokenize=\"ascii tokenchars '_'\")",
)
_CLEAR_STATEMENTS = (
    "DELETE FROM reached",
    "DELETE FROM passages",
    "DELETE FROM artifacts",
    "DELETE FROM compounds",
    "INSERT INTO terms (terms) VALUES ('delete-all')",
)
_MATCH_QUERY = """SELECT id, seq, uri, offset, score FROM
 (SELECT rowid AS number, -bm25(terms) AS score FROM terms WHERE terms MATCH :terms
 ORDER BY score DESC, number DESC LIMIT :most)
 JOIN passages ON id = number ORDER BY score DESC, id DESC"""
_FILTERED_QUERY = """SELECT id, seq, uri, offset, -bm25(terms) AS score FROM terms JOIN passages ON id = terms.rowid
 WHERE terms MATCH :terms
 AND (:agent IS NULL OR agent = :agent) AND (:part IS NULL OR part = :part)
 AND (:after IS NULL OR at >= :after) AND (:before IS NULL OR at < :before)
 ORDER BY score DESC, id DESC LIMIT :most"""
_NEWEST_QUERY = """SELECT id, seq, uri, offset, 0.0 FROM passages
 WHERE (:agent IS NULL OR agent = :agent) AND (:part IS NULL OR part = :part)
 AND (:after IS NULL OR at >= :after) AND (:before IS NULL OR at < :before)
 ORDER BY id DESC LIMIT :most"""


@dataclass(frozen=True)
class IndexedStep:
    """The newest step in the index."""

    seq: int
    digest: str


@dataclass(frozen=True)
class PassageRef:
    """A passage that matches. `id` is its number in the file; ids grow with the history."""

    id: int
    seq: int
    uri: str | None
    offset: int | None
    score: float

    def with_score(self, score: float) -> "PassageRef":
        """Return this passage with another score."""
        return replace(self, score=score)


@dataclass(frozen=True)
class StoredPassage:
    """A passage as the file stores it; `at` in Unix seconds."""

    id: int
    seq: int
    step_id: str
    agent: str
    part: PartKind
    at: float
    uri: str | None
    offset: int | None
    text: str


class SqliteIndex:
    """One task's index, opened exclusively. Methods raise sqlite3.DatabaseError if the file is broken."""

    def __init__(self, database: sqlite3.Connection) -> None:
        require_fts5()
        self._database = database
        self._create_tables()

    def newest_step(self) -> IndexedStep | None:
        """Return the newest step in the index, or None if the index is empty."""
        row = self._database.execute("SELECT seq, digest FROM reached").fetchone()
        return IndexedStep(*row) if row else None

    def has_artifact(self, uri: str) -> bool:
        """Return True if the artifact was indexed, whether it has a text or not."""
        return self._database.execute("SELECT 1 FROM artifacts WHERE uri = ?", (uri,)).fetchone() is not None

    def add(self, passages: Sequence[Passage], uris: Collection[str], newest: TaskStep) -> None:
        """Add the passages in one transaction. The index then reaches to the step `newest`."""
        texts = [(normalize(passage.text), passage) for passage in passages]
        with self._transaction() as database:
            (first,) = database.execute("SELECT coalesce(max(id), 0) + 1 FROM passages").fetchone()
            database.executemany(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (_row(number, passage) for number, passage in enumerate(passages, first)),
            )
            rows = ((number, terms) for number, (terms, _) in enumerate(texts, first))
            database.executemany("INSERT INTO terms (rowid, spelled) VALUES (?, ?)", rows)
            long = set(chain.from_iterable(long_terms(terms) for terms, _ in texts))
            compounds = ((term,) for term in long if may_be_compound(term))
            database.executemany("INSERT OR IGNORE INTO compounds VALUES (?)", compounds)
            database.executemany("INSERT OR IGNORE INTO artifacts VALUES (?)", ((uri,) for uri in uris))
            database.execute("DELETE FROM reached")
            database.execute("INSERT INTO reached VALUES (?, ?)", (newest.seq, newest.digest))

    def clear(self) -> None:
        """Delete all that was derived from the history. Vectors remain, since they depend only on texts."""
        with self._transaction() as database:
            for statement in _CLEAR_STATEMENTS:
                database.execute(statement)

    def match(self, terms: Iterable[str], filters: SearchFilters, limit: int) -> list[PassageRef]:
        """Return the passages with any of the terms, best first by BM25; the newest first among equals."""
        expression = match_expression(terms)
        if not expression:
            return []
        statement = _MATCH_QUERY if filters == SearchFilters() else _FILTERED_QUERY
        rows = self._database.execute(statement, {"terms": expression, "most": limit, **filters.values})
        return [PassageRef(*row) for row in rows]

    def newest(self, filters: SearchFilters, limit: int) -> list[PassageRef]:
        """Return the newest passages, newest first, regardless of their words."""
        rows = self._database.execute(_NEWEST_QUERY, {"most": limit, **filters.values})
        return [PassageRef(*row) for row in rows]

    def find_compounds(self, members: Iterable[str]) -> list[str]:
        """Return the shortest long words of the history that begin or end with one of the members."""
        found: dict[str, None] = {}
        for member in members:
            rows = self._database.execute(
                "SELECT word FROM compounds WHERE length(word) >= ? AND"
                " (substr(word, 1, ?) = ? OR substr(word, ?) = ?) ORDER BY length(word), word LIMIT ?",
                (len(member) + MIN_MEMBER_CHARS, len(member), member, -len(member), member, _MAX_COMPOUNDS),
            )
            found |= dict.fromkeys(word for (word,) in rows)
        return list(found)

    def passage(self, number: int) -> StoredPassage:
        """Return the passage with this number."""
        return StoredPassage(*self._database.execute("SELECT * FROM passages WHERE id = ?", (number,)).fetchone())

    def vectors(self, model: str, hashes: Iterable[bytes]) -> dict[bytes, Vector]:
        """Return the known vectors of texts, by the hash of the text."""
        found = {}
        for one in hashes:
            query = "SELECT vector FROM vectors WHERE model = ? AND hash = ?"
            if row := self._database.execute(query, (model, one)).fetchone():
                found[one] = array("f", row[0])
        return found

    def store_vectors(self, model: str, vectors: Mapping[bytes, Vector]) -> None:
        """Store vectors of texts, by the hash of the text."""
        with self._transaction() as database:
            rows = ((model, one, vector.tobytes()) for one, vector in vectors.items())
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def _create_tables(self) -> None:
        if self._layout() == _version():
            return
        with self._transaction() as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'terms_%'")
            for (name,) in tables.fetchall():
                database.execute(f'DROP TABLE "{name}"')
            for statement in _TABLES:
                database.execute(statement)
            database.execute("INSERT INTO layout VALUES (?)", (_version(),))

    def _layout(self) -> str | None:
        if not self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'layout'").fetchone():
            return None
        row = self._database.execute("SELECT name FROM layout").fetchone()
        return str(row[0]) if row else None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


@lru_cache(maxsize=1)
def require_fts5() -> None:
    """Raise UsageError if this Python's SQLite has no full-text index."""
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError as error:
        raise UsageError(
            f"memory_search needs SQLite with FTS5, which SQLite {sqlite3.sqlite_version} of this Python lacks: "
            "run the workers with a Python whose sqlite3 module has it"
        ) from error
    finally:
        database.close()


def _version() -> str:
    return f"{LAYOUT_VERSION} {spelling()}"


def _row(number: int, passage: Passage) -> tuple[Any, ...]:
    step = passage.step
    at = step.created_at.timestamp()
    return number, step.seq, step.step_id, step.agent_name, passage.part, at, passage.uri, passage.offset, passage.text
