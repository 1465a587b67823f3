"""The tables of the rows on SQLite and PostgreSQL, with constraints and triggers that refuse writes to some rows.

The triggers are on the table with the states: the user's table, or the sidecar table. A check constraint of the user's
table refuses completions; for a sidecar table, a trigger does.
"""
# ruff: noqa: S608 - statements contain the names of tables

from collections.abc import Mapping

from tenure.core.job import State
from tests.neighbours.row_kinds import REFUSAL

Words = Mapping[State, str]

SQLITE_TABLE = """
create table members (
  id integer primary key,
  kind text not null,
  is_done integer not null default 0,
  facts text not null default '{}',
  note text,
  status text not null default 'pending' check (kind <> 'refuses_completion' or status <> 'done'),
  last_error text
)
"""
SQLITE_INDEX = "create index members_open on members (id) where is_done = 0"
SQLITE_DONE = "is_done = 1 or json_extract(facts, '$.done') = 1"
SQLITE_VALUES = {
    "done": "0, '{\"done\": 1}', null",
    "unknown_if_done": "0, 'no JSON', null",
    "unknown_if_done_abandoned": "0, 'no JSON', null",
    "no_utf8": "0, '{}', cast(x'ff41' as text)",
    "wide": "0, '{}', printf('%.2000000c', 'x')",
}
SQLITE_PLAIN = "0, '{}', null"

POSTGRES_TABLE = """
create table {schema}.members (
  id bigint primary key,
  kind text not null,
  is_done boolean not null default false,
  facts json,
  happened_at timestamptz,
  note text,
  status text not null default 'pending' check (kind <> 'refuses_completion' or status <> 'done'),
  last_error varchar(255)
);
create index members_open on {schema}.members (id) where not is_done;
create table {schema}.customers (id bigint primary key);
create function {schema}.is_done(kind text) returns boolean language plpgsql as $$
begin
  if kind like 'unknown_if_done%%' then
    raise exception '{refusal} to tell';
  end if;
  return kind = 'done';
end
$$
"""
POSTGRES_DONE = "members.is_done or {schema}.is_done(kind)"
POSTGRES_INSERT = """
insert into {schema}.members (id, kind, facts, happened_at, note)
select
  id,
  kind,
  case kind
    when 'deep' then cast(repeat('[', 2000) || repeat(']', 2000) as json)
    when 'digits' then cast(repeat('1', 5000) as json)
  end,
  case kind when 'infinite' then cast('infinity' as timestamptz) end,
  case kind when 'wide' then repeat('x', 2000000) end
from unnest(cast(%s as bigint[]), cast(%s as text[])) as new (id, kind)
"""
POSTGRES_CUSTOMERS = "insert into {schema}.customers select id from {schema}.members where kind like 'blocked%'"

POSTGRES_GUARD = """
create function {schema}.guard() returns trigger language plpgsql as $$
declare
  kind text := (select member.kind from {schema}.members member where member.id = new.id);
  was text := case when tg_op = 'UPDATE' then old.{state} else '{queued}' end;
begin
  if was <> '{running}' and new.{state} = '{running}' and kind = 'blocked_claim' then
    perform from {schema}.customers where id = new.id for update;
  elsif was = '{running}' and new.{state} <> '{running}' and kind = 'blocked_end' then
    perform from {schema}.customers where id = new.id for update;
  elsif was = '{running}' and new.{state} = '{completed}' and kind = 'denied' then
    raise exception '{refusal} the right to complete %', new.id using errcode = 'insufficient_privilege';
  elsif was <> '{running}' and new.{state} = '{running}' and kind = 'refuses_claim' then
    raise exception '{refusal} the claim of %', new.id;
  elsif was <> '{running}' and new.{state} = '{running}' and kind = 'skips_claim' then
    return null;
  elsif was = '{running}' and new.{state} = '{queued}' and kind in ('refuses_requeue', 'refuses_reap') then
    raise exception '{refusal} to queue % again', new.id;
  elsif was = '{running}' and new.{state} <> '{running}' and kind = 'refuses_end' then
    raise exception '{refusal} the end of %', new.id;
  elsif was = '{running}' and new.{state} = '{running}' and kind = 'refuses_extension' then
    raise exception '{refusal} the extension of %', new.id;
  elsif tg_table_name <> 'members' and new.{state} = '{completed}' and kind = 'refuses_completion' then
    raise exception '{refusal} the completion of %', new.id;
  end if;
  return new;
end
$$;
create trigger guard before insert or update on {home} for each row execute function {schema}.guard()
"""

SQLITE_RULES = (
    ("refuses_claim", "old.{state} <> '{running}' and new.{state} = '{running}'", "abort, '{refusal} the claim'"),
    ("skips_claim", "old.{state} <> '{running}' and new.{state} = '{running}'", "ignore"),
    (
        "refuses_requeue",
        "old.{state} = '{running}' and new.{state} = '{queued}'",
        "abort, '{refusal} to queue it again'",
    ),
    ("refuses_reap", "old.{state} = '{running}' and new.{state} = '{queued}'", "abort, '{refusal} to queue it again'"),
    ("refuses_end", "old.{state} = '{running}' and new.{state} <> '{running}'", "abort, '{refusal} the end'"),
    (
        "refuses_extension",
        "old.{state} = '{running}' and new.{state} = '{running}'",
        "abort, '{refusal} the extension'",
    ),
    ("refuses_completion", "new.{state} = '{completed}'", "abort, '{refusal} the completion'"),
)
"""Kind of rows, condition of the trigger, and arguments of `raise`."""


def postgres_guard(schema: str, home: str, state: str, words: Words) -> str:
    names = {each.value: words[each] for each in State}
    return POSTGRES_GUARD.format(schema=schema, home=home, state=state, refusal=REFUSAL, **names)


def sqlite_guards(home: str, state: str, words: Words) -> list[str]:
    """Return the triggers; the kind is that of the user's row."""
    names = {each.value: words[each] for each in State}
    rules = SQLITE_RULES if home != "members" else SQLITE_RULES[:-1]
    return [
        f"create trigger {kind} before update on {home} "
        f"when (select kind from members where id = new.id) = '{kind}' and {condition.format(state=state, **names)} "
        f"begin select raise({action.format(refusal=REFUSAL)}); end"
        for kind, condition, action in rules
    ]
