-- DDL: columns, the sidecar table with its triggers, indexes.

-- name: add column
alter table {table} add column {column} {definition}

-- name: companion
create table if not exists {companion} (
  {key_columns},
  "state" text not null default 'queued',
  "leased_until" text,
  "worker" text,
  "attempts" integer not null default 0,
  "crashes" integer not null default 0,
  "fence" integer not null default 0,
  "token" text,
  "error" text,
  "started_at" text,
  "completed_at" text,
  "run_at" text,
  "record" text,
  primary key ({key})
) without rowid

-- name: trigger
create trigger if not exists main.{trigger} {definition}

-- name: new row
-- A new row takes over nothing from a deleted row with the same key. The trigger does not fire for `insert or ignore` of
-- an existing row, nor for `on conflict do update`.
after insert on {table}
begin
  delete from {companion} where {is_new};
end

-- name: new key
-- The sidecar row follows the key of its row. The comparison is binary, as ids are.
after update of {key} on {table}
when {has_changed}
begin
  delete from {companion} where {is_new};
  update {companion} set {set_new} where {is_old};
end

-- name: triggers
select name, coalesce(sql, '')
from main.sqlite_master
where type = 'trigger'

-- name: index
create {unique}index if not exists main.{index} on {definition}

-- name: indexes
select name, coalesce(sql, '')
from main.sqlite_master
where type = 'index'

-- name: adopt
-- Give a lease to running rows without one. The lease expires a given time after the start, or after now.
update {home}
set {leased_until} = {ends_at}
where {state} = {as_running} and {leased_until} is null

-- name: has running without a lease
select exists (select 1 from {home} where {state} = {as_running} and {leased_until} is null)

-- name: has running
select exists (select 1 from {home} where {state} = {as_running})
