-- The worker registry. A silent worker is no longer listed, but kept for a while as evidence for expired claims.

-- name: beat
insert into tenure_workers (
  name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, shown_until
)
values (:name, :host, :pid, :version, :concurrency, :queues, :types, :quiet_for, :now, :now, :shown_until)
on conflict (name) do update set
  host = excluded.host,
  pid = excluded.pid,
  version = excluded.version,
  concurrency = excluded.concurrency,
  queues = excluded.queues,
  types = excluded.types,
  quiet_for = excluded.quiet_for,
  started_at = case when shown_until > excluded.beat_at then started_at else excluded.started_at end,
  beat_at = excluded.beat_at,
  shown_until = excluded.shown_until;

-- name: deregister
delete from tenure_workers
where name = :name;

-- name: drop long silent
delete from tenure_workers
where shown_until <= :silent_since;

-- name: workers
select
  name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at,
  (select count(*) from tenure_jobs where state = 'running' and worker = name)
from tenure_workers
where shown_until > :now
order by name;

-- name: known
-- names: a JSON list. The entries of these workers, live or silent. The jobs they hold are not counted.
select name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, 0
from tenure_workers
where name in (select value from json_each(:names)) and shown_until > :silent_since;
