-- The workers that gave a sign of life.

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
  beat_at = excluded.beat_at,
  shown_until = excluded.shown_until;

-- name: sign off
delete from tenure_workers
where name = :name;

-- name: drop silent
delete from tenure_workers
where shown_until <= :now;

-- name: workers
select
  name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at,
  (select count(*) from tenure_jobs where state = 'running' and worker = name)
from tenure_workers
where shown_until > :now
order by name;
