-- The tables of a store, in a dedicated schema.

create table {schema}.versions (
  version    integer     primary key,
  works_from integer     not null,  -- the lowest version that a release must know to use this one
  applied_at timestamptz not null default statement_timestamp()
);

-- Enqueue order.
create sequence {schema}.job_sequence;

-- Jobs that are queued, running or failed. A claim finds ready jobs through a partial index. Readiness is a stored
-- column, because an index condition cannot depend on the current time.
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
  -- Rows come and go quickly, so autovacuum must start after a number of dead rows rather than at a share of the table.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 1
);

-- Enqueue order, for the pages of `find`. Running jobs are left out: they are few, and a claim writes one entry less.
create index jobs_in_order on {schema}.jobs (sequence) where leased_until is null;

-- Scanned by claims: the ready jobs of a queue and type, in claim order.
create index jobs_ready on {schema}.jobs (queue, type, (-priority), run_at, sequence) where is_ready;

-- Scanned for promotion: the scheduled jobs of a queue and type.
create index jobs_scheduled on {schema}.jobs (queue, type, run_at, sequence) where state = 'queued' and not is_ready;

-- Scanned for reaping. The conditions of this index and the next do not mention the state. A settlement does, so the
-- planner cannot choose these indexes for it; a settlement would scan their dead entries.
create index jobs_leases on {schema}.jobs (leased_until, sequence) where leased_until is not null;

-- Finds the jobs of a repeated claim.
create index jobs_tokens on {schema}.jobs (token) where token is not null;

-- A key is unique among the live jobs of a queue.
create unique index jobs_keys on {schema}.jobs (queue, key) where key is not null and state <> 'failed';

-- For purges, and for lists of failed jobs.
create index jobs_failed on {schema}.jobs (queue, type, finished_at, sequence) where state = 'failed';
create index jobs_failed_in_order on {schema}.jobs (sequence) where state = 'failed';

-- Jobs that are completed or cancelled. No id is in both tables.
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
  -- The token identifies a repeated completion.
  constraint held_if_completed check ((state = 'completed') = (token is not null and worker is not null))
);

create unique index finished_in_order on {schema}.finished (sequence);

-- For purges, and for the counts of `stats`.
create index finished_lines on {schema}.finished (queue, type, state, finished_at, sequence);

-- For lists of cancelled jobs, which are few among the completed.
create index finished_cancelled on {schema}.finished (sequence) where state = 'cancelled';

-- Every ending other than completion; the last fifty of a job, live or finished.
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

-- The known pairs of queue and type, which claims scan. A lane may be empty until maintenance deletes it.
create table {schema}.lanes (
  queue text collate "C" not null,
  type  text collate "C" not null,
  primary key (queue, type)
);

create table {schema}.paused (
  queue text collate "C" primary key
);

-- Events by minute. Every operation inserts its own rows, so that operations do not block each other; maintenance
-- merges older rows.
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

-- The last enqueued slot of each schedule.
create table {schema}.schedules (
  name    text collate "C" primary key,
  last_at timestamptz not null
);

-- For interactive use: all jobs with their last error.
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
