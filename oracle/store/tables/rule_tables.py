"""The rule sets that ever scored in this database; scores name theirs by its number."""

from sqlalchemy import BigInteger, Column, LargeBinary, SmallInteger, Table, Text

from oracle.store.tables.metadata import metadata

# No projection: a number once given stays.
rule_set = Table(
    "rule_set",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False, unique=True),  # of the text
    Column("text", Text, nullable=False),  # canonical JSON
)
