-- The tables of a store. All names begin with tenure_, so that they can share a file with your own tables.
-- Timestamps are microseconds since 1970, UTC.

create table tenure_schema (
  version integer not null
);

-- The jobs without their payloads. A payload may be large and never changes: a claim rewrites only this small row.
create table tenure_jobs (
  sequence         integer primary key autoincrement,
  id               text    not null unique,
  queue            text    not null,
  type             text    not null,
  key              text,
  priority         integer not null,
  run_at           integer not null,
  state            text    not null default 'queued',
  is_due           integer not null,  -- set at enqueue or when a claim promotes the job: an index cannot compare with the time
  attempts         integer not null default 0,
  crashes          integer not null default 0,
  max_attempts     integer,
  max_crashes      integer not null,
  timeout          real,
  fence            integer not null default 0,
  token            text,
  worker           text,
  leased_until     integer,
  progress         text,              -- JSON: done, of, note
  cancel_requested integer not null default 0,
  result           text,              -- JSON
  result_dropped   integer not null default 0,
  endings          integer not null default 0,
  meta             text,              -- JSON, if there is any
  created_at       integer not null,
  started_at       integer,
  finished_at      integer,
  -- Not with `in`: SQLite would build a temporary table at each write.
  check (
    state = 'queued' or state = 'running' or state = 'completed' or state = 'failed' or state = 'cancelled'
  ),
  check ((state = 'running') = (leased_until is not null)),
  check ((state = 'queued' or state = 'running') = (finished_at is null)),
  check (is_due = 0 or state = 'queued'),
  check (cancel_requested = 0 or state = 'running')
);

-- Claim: the due jobs of a queue and type in claim order, and no other jobs.
create index tenure_due on tenure_jobs (queue, type, priority desc, run_at) where is_due = 1;

-- Claim: the jobs to promote.
create index tenure_scheduled on tenure_jobs (queue, type, run_at) where state = 'queued' and is_due = 0;

-- Reap: the leases that expire first.
create index tenure_leases on tenure_jobs (leased_until) where state = 'running';

-- A resent claim finds its jobs by token; a reap finds the jobs of a dead worker.
create index tenure_tokens on tenure_jobs (token) where state = 'running';
create index tenure_holders on tenure_jobs (worker, leased_until) where state = 'running';

-- A key belongs to at most one live job of a queue.
create unique index tenure_keys on tenure_jobs (queue, key)
where key is not null and state in ('queued', 'running');

-- Purge: finished jobs by time. Find: failed and cancelled jobs.
create index tenure_finished on tenure_jobs (queue, state, finished_at) where finished_at is not null;
create index tenure_stopped on tenure_jobs (sequence) where state in ('failed', 'cancelled');

create table tenure_payloads (
  job     integer primary key,
  payload text not null
);

-- Every end of a claim except completion, and every move by an operator; the last 50 of each job.
create table tenure_history (
  job        integer not null,
  number     integer not null,
  outcome    text    not null,
  fence      integer not null,
  token      text,
  worker     text,
  claimed_at integer,
  ended_at   integer not null,
  error      text,
  primary key (job, number)
) without rowid;

-- The number of jobs of each queue and type in each state. `due` counts promoted jobs; some of `scheduled` may be due.
create table tenure_lanes (
  queue     text    not null,
  type      text    not null,
  due       integer not null default 0 check (due >= 0),
  scheduled integer not null default 0 check (scheduled >= 0),
  running   integer not null default 0 check (running >= 0),
  completed integer not null default 0 check (completed >= 0),
  failed    integer not null default 0 check (failed >= 0),
  cancelled integer not null default 0 check (cancelled >= 0),
  primary key (queue, type)
) without rowid;

create index tenure_lanes_due on tenure_lanes (queue, type) where due > 0;
create index tenure_lanes_scheduled on tenure_lanes (queue, type) where scheduled > 0;

create table tenure_paused (
  queue text primary key not null
) without rowid;

create table tenure_counts (
  minute_at integer not null,
  queue     text    not null,
  event     text    not null,
  number    integer not null,
  primary key (minute_at, queue, event)
) without rowid;

create table tenure_workers (
  name        text    primary key not null,
  host        text    not null,
  pid         integer not null,
  version     text    not null,
  concurrency integer not null,
  queues      text,                   -- JSON
  types       text,                   -- JSON
  quiet_for   real    not null,
  started_at  integer not null,
  beat_at     integer not null,
  shown_until integer not null
) without rowid;

-- A view for readers: the jobs with their times as text.
create view tenure_overview as
select
  j.id,
  j.queue,
  j.type,
  case when j.state = 'queued' and j.run_at > 1000000 * strftime('%s', 'now') then 'scheduled' else j.state end as state,
  j.priority,
  datetime(j.run_at / 1000000, 'unixepoch') as run_at,
  j.attempts,
  j.crashes,
  j.fence,
  j.worker,
  datetime(j.leased_until / 1000000, 'unixepoch') as leased_until,
  (
    select h.error
    from tenure_history h
    where h.job = j.sequence and h.error is not null and h.outcome <> 'operator'
    order by h.number desc
    limit 1
  ) as last_error,
  p.payload,
  j.result,
  datetime(j.created_at / 1000000, 'unixepoch') as created_at,
  datetime(j.started_at / 1000000, 'unixepoch') as started_at,
  datetime(j.finished_at / 1000000, 'unixepoch') as finished_at
from tenure_jobs j
join tenure_payloads p on p.job = j.sequence;
