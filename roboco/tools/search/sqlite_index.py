"""SqliteIndex: the passages of one task in an SQLite file, with their terms in a full-text index."""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import log
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.errors import UsageError
from roboco.tools.search.analyzer import match_expression, normalize, spelling
from roboco.tools.search.passage import Passage
from roboco.tools.search.result import SearchFilters, SearchHit

LAYOUT_VERSION = 2
"""The version of the tables. A file of another layout, or with other stemmers, is thrown away."""
MAX_VECTORS = 50_000
"""Maximum number of passages with vectors; the oldest passages of a longer history are found by words alone."""
_MIN_WEIGHT = 1 / 3
"""The weight of a term that is looked up, relative to the rarest one's: of 10,000 passages, less than 5 % have it."""
_MAX_RARE_PASSAGES = 100
"""Passages with a term that is looked up, whatever its weight."""
_TABLES = (
    "CREATE TABLE layout (name TEXT)",
    "CREATE TABLE reached (seq INTEGER, digest TEXT)",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, seq INTEGER, step_id TEXT, agent TEXT, part TEXT, at REAL,"
    " uri TEXT, offset INTEGER, text TEXT)",
    "CREATE TABLE artifacts (uri TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE vectors (first INTEGER PRIMARY KEY, packed BLOB)",
    "CREATE TABLE embedded (space TEXT, passage INTEGER, token BLOB)",
    "CREATE VIRTUAL TABLE terms USING fts5(spelled, content='', tokenize=\"ascii tokenchars '_'\")",
    "CREATE VIRTUAL TABLE frequencies USING fts5vocab(terms, row)",
)
_CLEAR_STATEMENTS = (
    "DELETE FROM reached",
    "DELETE FROM passages",
    "DELETE FROM artifacts",
    "DELETE FROM vectors",
    "DELETE FROM embedded",
    "INSERT INTO terms (terms) VALUES ('delete-all')",
)
_CONDITIONS = """(:agent IS NULL OR agent = :agent) AND (:part IS NULL OR part = :part)
 AND (:after IS NULL OR at >= :after) AND (:before IS NULL OR at < :before)"""
_MATCH_QUERY = """SELECT rowid, -bm25(terms) AS score FROM terms WHERE terms MATCH :terms
 ORDER BY score DESC, rowid DESC LIMIT :most"""
_FILTERED_QUERY = f"""SELECT id, -bm25(terms) AS score FROM terms JOIN passages ON id = terms.rowid
 WHERE terms MATCH :terms AND {_CONDITIONS} ORDER BY score DESC, id DESC LIMIT :most"""  # noqa: S608 - no input


@dataclass(frozen=True)
class IndexedStep:
    """The newest step in the index."""

    seq: int
    digest: str


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
            database.executemany("INSERT OR IGNORE INTO artifacts VALUES (?)", ((uri,) for uri in uris))
            database.execute("DELETE FROM reached")
            database.execute("INSERT INTO reached VALUES (?, ?)", (newest.seq, newest.digest))

    def clear(self) -> None:
        """Delete all that was derived from the history."""
        with self._transaction() as database:
            for statement in _CLEAR_STATEMENTS:
                database.execute(statement)

    def match(self, terms: Sequence[str], filters: SearchFilters, limit: int) -> dict[int, float]:
        """Return the best passages with any of the terms, and the share of the terms' weight that each has, by BM25.

        A term weighs the more, the fewer passages have it. Function words, in any language, are not looked up.
        """
        statement = _MATCH_QUERY if filters == SearchFilters() else _FILTERED_QUERY
        passages = self._newest_passage()
        having = {term: self._having(term) for term in terms}
        weights = {term: _weight(passages, number) for term, number in having.items()}
        least = _MIN_WEIGHT * max((weights[term] for term in terms if having[term]), default=0)
        heavy = [term for term in terms if weights[term] >= least or having[term] <= _MAX_RARE_PASSAGES]
        values = {"terms": match_expression(heavy), "most": limit, **filters.values}
        weight = sum(weights.values())
        return {number: score / weight for number, score in self._database.execute(statement, values)}

    def _having(self, term: str) -> int:
        """Return the number of passages that have the term."""
        row = self._database.execute("SELECT doc FROM frequencies WHERE term = ?", (term,)).fetchone()
        return row[0] if row else 0

    def _newest_passage(self) -> int:
        return int(self._database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0])

    def filtered(self, filters: SearchFilters) -> set[int] | None:
        """Return the passages that fulfil the conditions, or None if there are no conditions."""
        if filters == SearchFilters():
            return None
        query = f"SELECT id FROM passages WHERE {_CONDITIONS}"  # noqa: S608 - no input
        return {number for (number,) in self._database.execute(query, filters.values)}

    def hit(self, number: int, score: float) -> SearchHit:
        """Return the passage with this number as a hit with this score, without the space around its text."""
        query = "SELECT seq, step_id, agent, part, at, uri, offset, text FROM passages WHERE id = ?"
        seq, step_id, agent, part, at, uri, offset, text = self._database.execute(query, (number,)).fetchone()
        begin = None if offset is None else offset + len(text) - len(text.lstrip())
        return SearchHit(step_id, seq, agent, part, score, text.strip(), datetime.fromtimestamp(at, UTC), uri, begin)

    def without_vector(self, space: str, limit: int) -> list[tuple[int, str]]:
        """Return the oldest passages without a vector. `space` is the model: vectors of another one are deleted."""
        with self._transaction() as database:
            row = database.execute("SELECT space, passage FROM embedded").fetchone()
            if row is None or row[0] != space:
                database.execute("DELETE FROM vectors")
                database.execute("DELETE FROM embedded")
                database.execute("INSERT INTO embedded VALUES (?, 0, randomblob(8))", (space,))
        last = max(row[1] if row and row[0] == space else 0, self._newest_passage() - MAX_VECTORS)
        query = "SELECT id, text FROM passages WHERE id > ? ORDER BY id LIMIT ?"
        return self._database.execute(query, (last, limit)).fetchall()

    def add_vectors(self, space: str, passages: Sequence[tuple[int, str]], packed: bytes) -> None:
        """Add the vectors of passages, unless the space or the history is another one by now, or they were added."""
        first, (last, text) = passages[0][0], passages[-1]
        with self._transaction() as database:
            moved = """UPDATE embedded SET passage = ? WHERE space = ? AND passage < ?
             AND EXISTS (SELECT 1 FROM passages WHERE id = ? AND text = ?)"""
            if database.execute(moved, (last, space, first, last, text)).rowcount:
                database.execute("INSERT INTO vectors VALUES (?, ?)", (first, packed))
                database.execute("DELETE FROM vectors WHERE first <= ?", (last - MAX_VECTORS,))

    def vectors_version(self) -> object:
        """Return a value that changes with the vectors of this file, and that no other file has."""
        return self._database.execute("SELECT passage, token FROM embedded").fetchone()

    def vectors(self) -> bytes:
        """Return all vectors, as they were packed."""
        return b"".join(packed for (packed,) in self._database.execute("SELECT packed FROM vectors ORDER BY first"))

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


def _weight(passages: int, having: int) -> float:
    """Return the weight in BM25, as FTS5 computes it, of a term that some of the passages have."""
    return max(log((passages - having + 0.5) / (having + 0.5)), 1e-6)


def _version() -> str:
    return f"{LAYOUT_VERSION} {spelling()}"


def _row(number: int, passage: Passage) -> tuple[Any, ...]:
    step = passage.step
    at = step.created_at.timestamp()
    return number, step.seq, step.step_id, step.agent_name, passage.part, at, passage.uri, passage.offset, passage.text
