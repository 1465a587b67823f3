"""How the server would find the rows of a claim: by an index, or by walking through the table."""

from collections.abc import Iterator, Mapping
from typing import Any

from tenure.backends.postgres.statements import Statement
from tenure.backends.tables.equality_columns import equal_columns
from tenure.backends.tables.postgres import server_checks as fitness
from tenure.backends.tables.postgres.admin_connection import Hand, named
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.sql_templates import Wording
from tenure.backends.tables.protocol import Finding, Gravity
from tenure.core.table.spec import quoted

FEW = 10_000
"""Of so few rows it does not matter how they are found."""


def walking(hand: Hand, layout: Layout) -> Iterator[Finding]:
    """Tell that a claim would walk through the table, if that has many rows."""
    if fitness.rows_of(hand, layout.table) < FEW:
        return
    partial = {name for (name,) in hand.rows(named("fitness")["partial indexes"], {"oid": layout.table.oid})}
    for node in _nodes(_plan(hand, layout)):
        if node.get("Relation Name") != layout.table.name or node.get("Alias") != layout.spec.name:
            continue
        index = node.get("Index Name")
        if node["Node Type"] == "Seq Scan" or (index and index not in partial and "Index Cond" not in node):
            yield Finding(
                gravity=Gravity.WARNING,
                about="plan",
                text=f"a claim walks through {layout.table.shown}: no index leads to the rows that it may take",
                remedy=_remedy(layout),
            )
            return


def _plan(hand: Hand, layout: Layout) -> Mapping[str, Any]:
    take = Wording(layout).statement("claim", "take")
    explained = Statement(b"explain (format json) " + take.text, take.names, b"")
    values = {"limit": "1", "lease": "0", "had": "0", "worker": "", "token": "", "now": None}
    ((plan,),) = hand.rows(explained, {**values, **param_values(layout.spec)})
    found: Mapping[str, Any] = plan[0]["Plan"]
    return found


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for each in node.get("Plans", []):
        yield from _nodes(each)


def _remedy(layout: Layout) -> str:
    where = layout.spec.where
    key = [quoted(each.name) for each in layout.key]
    order = [f"{quoted(each.name)}{' desc nulls last' if told.is_descending else ''}" for each, told in layout.order]
    fixed = [quoted(each) for each in equal_columns(where)]
    # A condition that names values cannot be that of an index.
    condition = f" where {where.text}" if where is not None and not where.names and not fixed else ""
    columns = ", ".join(dict.fromkeys([*fixed, *order, *key]))
    return f"create index concurrently on {layout.table.place} ({columns}){condition};"
