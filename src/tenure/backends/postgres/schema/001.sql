-- The tables of a store, in a schema of their own.

create table {schema}.versions (
  version    integer     primary key,
  works_from integer     not null,  -- the oldest version that a tenure may know to work with this one
  applied_at timestamptz not null default statement_timestamp()
);

-- Enqueue order.
create sequence {schema}.job_sequence;

-- The jobs that are queued, running or failed. A claim leads a worker from here by the index of the ready ones; to be
-- ready is stored, for no index can know the time.
create table {schema}.jobs (
  id               text collate "C" primary key,
  sequence         bigint      not null,  -- of job_sequence
  queue            text collate "C" not null,
  type             text collate "C" not null,
  key              text collate "C",
  priority         integer     not null,
  run_at           timestamptz not null,
  state            text        not null default 'queued',
  is_ready         boolean     not null,
  cancel_requested boolean     not null default false,
  attempts         integer     not null default 0,
  crashes          integer     not null default 0,
  max_attempts     integer,
  max_crashes      integer     not null,
  endings          integer     not null default 0,
  fence            bigint      not null default 0,
  timeout          double precision,
  worker           text,
  token            text collate "C",
  leased_until     timestamptz,
  created_at       timestamptz not null,
  started_at       timestamptz,
  finished_at      timestamptz,
  progress         json,
  meta             json,
  payload          json        not null,
  constraint a_state check (state in ('queued', 'running', 'failed')),
  constraint leased_while_it_runs check (
    case
      when state = 'running' then
        leased_until is not null and token is not null and worker is not null and started_at is not null
      else leased_until is null and token is null and worker is null and not cancel_requested
    end
  ),
  constraint ready_only_if_queued check (state = 'queued' or not is_ready),
  constraint finished_if_failed check ((state = 'failed') = (finished_at is not null))
) with (
  -- Rows come and go: what is dead has to be swept by their number, not by their share.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 1
);

-- Enqueue order, in which `find` pages. Not of those that run: they are not many, and a claim has one entry less to make.
create index jobs_in_order on {schema}.jobs (sequence) where leased_until is null;

-- What a claim walks: the ready jobs of a queue and type in their order, and nothing else.
create index jobs_ready on {schema}.jobs (queue, type, (-priority), run_at, sequence) where is_ready;

-- What a claim promotes: the scheduled jobs of a queue and type.
create index jobs_scheduled on {schema}.jobs (queue, type, run_at, sequence) where state = 'queued' and not is_ready;

-- What a reap takes back. Neither this nor the next speaks of the state, so that a settlement, which does, is not led
-- here by the planner: it would walk the dead entries.
create index jobs_leases on {schema}.jobs (leased_until, sequence) where leased_until is not null;

-- A claim that is sent again finds its jobs.
create index jobs_tokens on {schema}.jobs (token) where token is not null;

-- At most one live job of a queue has a key.
create unique index jobs_keys on {schema}.jobs (queue, key) where key is not null and state <> 'failed';

-- What a purge forgets, and what a person looks for first.
create index jobs_failed on {schema}.jobs (queue, type, finished_at, sequence) where state = 'failed';
create index jobs_failed_in_order on {schema}.jobs (sequence) where state = 'failed';

-- The jobs that are completed or cancelled. No id is in both tables.
create table {schema}.finished (
  id             text collate "C" primary key,
  sequence       bigint      not null,
  queue          text collate "C" not null,
  type           text collate "C" not null,
  key            text collate "C",
  priority       integer     not null,
  run_at         timestamptz not null,
  state          text        not null,
  result_dropped boolean     not null default false,
  attempts       integer     not null,
  crashes        integer     not null,
  max_attempts   integer,
  max_crashes    integer     not null,
  endings        integer     not null,
  fence          bigint      not null,
  timeout        double precision,
  worker         text,
  token          text collate "C",
  created_at     timestamptz not null,
  started_at     timestamptz,
  finished_at    timestamptz not null,
  progress       json,
  meta           json,
  payload        json        not null,
  result         json,
  constraint a_state check (state in ('completed', 'cancelled')),
  -- The token tells a completion that is sent again.
  constraint held_if_completed check ((state = 'completed') = (token is not null and worker is not null))
);

create unique index finished_in_order on {schema}.finished (sequence);

-- What a purge forgets, and what `stats` counts.
create index finished_lines on {schema}.finished (queue, type, state, finished_at, sequence);

-- What a person looks for among many that are completed.
create index finished_cancelled on {schema}.finished (sequence) where state = 'cancelled';

-- Each ending that is not complete; the last fifty of a job, live or finished.
create table {schema}.history (
  job        bigint      not null,
  number     integer     not null,
  outcome    text        not null,
  fence      bigint      not null,
  token      text collate "C",
  worker     text,
  claimed_at timestamptz,
  ended_at   timestamptz not null,
  error      text,
  primary key (job, number)
);

-- The queues and types that there are, or were: where a claim looks.
create table {schema}.lanes (
  queue text collate "C" not null,
  type  text collate "C" not null,
  primary key (queue, type)
);

create table {schema}.paused (
  queue text collate "C" primary key
);

-- What happened in each minute. Each operation adds lines of its own, so that none waits for another; older ones are
-- added up from time to time.
create table {schema}.counts (
  minute_at timestamptz not null,
  queue     text collate "C" not null,
  event     text collate "C" not null,
  number    bigint      not null
);

create index counts_by_minute on {schema}.counts (minute_at, queue, event);

create table {schema}.workers (
  name        text collate "C" primary key,
  host        text        not null,
  pid         bigint      not null,
  version     text        not null,
  concurrency integer     not null,
  queues      text[],
  types       text[],
  quiet_for   double precision not null,
  started_at  timestamptz not null,
  beat_at     timestamptz not null,
  shown_until timestamptz not null
);

-- The last slot of each schedule that was given out.
create table {schema}.schedules (
  name    text collate "C" primary key,
  last_at timestamptz not null
);

-- For people: all jobs, with what last went wrong.
create view {schema}.overview as
select
  job.sequence,
  job.id,
  job.queue,
  job.type,
  case when job.state = 'queued' and job.run_at > statement_timestamp() then 'scheduled' else job.state end as state,
  job.priority,
  job.run_at,
  job.attempts,
  job.crashes,
  job.fence,
  job.worker,
  job.leased_until,
  job.cancel_requested,
  (
    select h.error
    from {schema}.history h
    where h.job = job.sequence and h.error is not null and h.outcome <> 'operator'
    order by h.number desc
    limit 1
  ) as last_error,
  job.payload,
  job.result,
  job.created_at,
  job.started_at,
  job.finished_at
from (
  select
    sequence, id, queue, type, state, priority, run_at, attempts, crashes, fence, worker, leased_until,
    cancel_requested, payload, null::json as result, created_at, started_at, finished_at
  from {schema}.jobs
  union all
  select
    sequence, id, queue, type, state, priority, run_at, attempts, crashes, fence, worker, null,
    false, payload, result, created_at, started_at, finished_at
  from {schema}.finished
) job;
