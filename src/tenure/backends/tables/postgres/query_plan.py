"""Check with EXPLAIN whether a claim uses an index or scans the table."""

from collections.abc import Iterator, Mapping
from typing import Any

from tenure.backends.postgres.statements import Statement
from tenure.backends.tables.equality_columns import equal_columns
from tenure.backends.tables.postgres import server_checks
from tenure.backends.tables.postgres.admin_connection import AdminConnection, load_statements
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.sql_templates import SqlTemplates
from tenure.backends.tables.protocol import Finding, Severity
from tenure.core.table.spec import quote_identifier

SMALL_TABLE_ROWS = 10_000
"""Below this number of rows a table scan is cheap enough."""


def check_claim_plan(admin: AdminConnection, layout: Layout) -> Iterator[Finding]:
    """Report that a claim scans a large table."""
    if server_checks.estimate_rows(admin, layout.table) < SMALL_TABLE_ROWS:
        return
    partial = {
        name for (name,) in admin.fetch(load_statements("server_checks")["partial indexes"], {"oid": layout.table.oid})
    }
    for node in _plan_nodes(_explain_claim(admin, layout)):
        if node.get("Relation Name") != layout.table.name or node.get("Alias") != layout.spec.name:
            continue
        index = node.get("Index Name")
        if node["Node Type"] == "Seq Scan" or (index and index not in partial and "Index Cond" not in node):
            yield Finding(
                severity=Severity.WARNING,
                about="plan",
                text=f"every claim scans {layout.table.display_name}: no index matches where and the claim order",
                remedy=_index_remedy(layout),
            )
            return


def _explain_claim(admin: AdminConnection, layout: Layout) -> Mapping[str, Any]:
    take = SqlTemplates(layout).statement("claim", "take")
    explained = Statement(b"explain (format json) " + take.text, take.names, b"")
    values = {"limit": "1", "lease": "0", "had": "0", "worker": "", "token": "", "now": None}
    ((plan,),) = admin.fetch(explained, {**values, **param_values(layout.spec)})
    found: Mapping[str, Any] = plan[0]["Plan"]
    return found


def _plan_nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for each in node.get("Plans", []):
        yield from _plan_nodes(each)


def _index_remedy(layout: Layout) -> str:
    where = layout.spec.where
    key = [quote_identifier(each.name) for each in layout.key]
    order = [
        f"{quote_identifier(each.name)}{' desc nulls last' if item_order.is_descending else ''}"
        for each, item_order in layout.order
    ]
    fixed = [quote_identifier(each) for each in equal_columns(where)]
    # A condition with parameters cannot be the condition of a partial index.
    condition = f" where {where.text}" if where is not None and not where.names and not fixed else ""
    columns = ", ".join(dict.fromkeys([*fixed, *order, *key]))
    return f"create index concurrently on {layout.table.quoted_name} ({columns}){condition};"
