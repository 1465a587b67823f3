-- The registry of workers. A worker without a recent heartbeat is hidden; its row stays for a while as evidence for the
-- errors of expired claims.

-- name: beat
insert into {schema}.workers as known (
  name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, shown_until
)
values (
  :name, :host, :pid, :version, :concurrency, cast(:queues as text[]), cast(:types as text[]), :quiet_for, {now}, {now},
  {now} + cast(:ttl as bigint) * interval '1 microsecond'
)
on conflict (name) do update set
  host = excluded.host,
  pid = excluded.pid,
  version = excluded.version,
  concurrency = excluded.concurrency,
  queues = excluded.queues,
  types = excluded.types,
  quiet_for = excluded.quiet_for,
  started_at = case when known.shown_until > excluded.beat_at then known.started_at else excluded.started_at end,
  beat_at = excluded.beat_at,
  shown_until = excluded.shown_until;

-- name: deregister
delete from {schema}.workers
where name = :name;

-- name: drop long silent
delete from {schema}.workers
using (
  select name
  from {schema}.workers
  where shown_until <= {now} - cast(:evidence_kept as bigint) * interval '1 microsecond'
  for update skip locked
) silent
where workers.name = silent.name;

-- name: workers
with holding as (
  select worker, count(*) as number
  from {schema}.jobs
  where leased_until is not null
  group by worker
)
select coalesce(
  json_agg(json_build_array({worker}, coalesce(holding.number, 0)) order by known.name), '[]'
)
from {schema}.workers known
left join holding on holding.worker = known.name
where known.shown_until > {now};
