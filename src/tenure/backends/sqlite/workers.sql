-- The workers that gave a sign of life. One that fell silent is not shown any more, but stays for a while as evidence.

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

-- name: sign off
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
-- names: a JSON list. These workers, shown or silent; what they hold is not counted.
select name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, 0
from tenure_workers
where name in (select value from json_each(:names)) and shown_until > :silent_since;
