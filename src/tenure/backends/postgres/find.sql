-- Find jobs page by page, in enqueue order or reversed: order and comparison are filled in for each direction.
-- The source of candidates (`all`, `running`, `stopped`, `ids`) is chosen by the query; only `ids` uses :ids.

-- name: all
(select {{live}} from {schema}.jobs where leased_until is null and sequence {{beyond}} :cursor {{first}})
union all
({{running}})
union all
(select {{finished}} from {schema}.finished where sequence {{beyond}} :cursor {{first}})

-- name: running
-- Running jobs are few, so they are sorted instead of indexed.
select {{live}} from {schema}.jobs where leased_until is not null and sequence + 0 {{beyond}} :cursor offset 0

-- name: stopped
-- Failed and cancelled jobs.
(select {{live}} from {schema}.jobs where state = 'failed' and sequence {{beyond}} :cursor {{first}})
union all
(select {{finished}} from {schema}.finished where state = 'cancelled' and sequence {{beyond}} :cursor {{first}})

-- name: ids
-- Jobs by id. `+ 0` and `offset 0` keep the planner from scanning the index of the sequence instead.
(select {{live}} from {schema}.jobs where id = any (cast(:ids as text[])) and sequence + 0 {{beyond}} :cursor offset 0)
union all
(
  select {{finished}}
  from {schema}.finished
  where id = any (cast(:ids as text[])) and sequence + 0 {{beyond}} :cursor
  offset 0
)

-- name: first
order by sequence {{order}} limit :scan

-- name: live
-- The columns used by the conditions, for a job that is queued, running or failed …
id, sequence, true as is_live, state, queue, type, key, worker, attempts, endings, run_at,
coalesce(finished_at, created_at) as last_at

-- name: finished
-- … and for a job that is completed or cancelled.
id, sequence, false, state, queue, type, key, worker, attempts, endings, run_at, finished_at

-- name: page
-- Return at most :limit matching jobs among the next :scan candidates, and the position to continue from, null at the
-- end. The last candidate is included even if it does not match: its presence shows that more may follow. The limits
-- are evaluated lazily, so no candidate after match number :limit is checked.
with
candidate as (
  select
    id, sequence, is_live, state, queue, type, key, worker, attempts, endings, run_at, last_at,
    row_number() over (order by sequence {{order}}) as number
  from ({{candidates}}) stored
  order by sequence {{order}}
  limit :scan
),
checked as (
  select
    id, sequence, is_live, number,
    (cast(:states as text[]) is null or state = any (cast(:states as text[])))
    and (cast(:queues as text[]) is null or queue = any (cast(:queues as text[])))
    and (cast(:types as text[]) is null or type = any (cast(:types as text[])))
    and (cast(:key as text) is null or coalesce(key = :key, false))
    and (cast(:worker as text) is null or coalesce(worker = :worker, false))
    and (cast(:attempts_over as integer) is null or attempts > :attempts_over)
    and (cast(:due as boolean) is null or (state = 'queued' and (run_at <= {now}) = :due))
    and (cast(:since as bigint) is null or last_at >= {now} - :since * interval '1 microsecond')
    and (cast(:error as text) is null or endings > 0 and coalesce(strpos((
      select h.error
      from {schema}.history h
      where h.job = sequence and h.error is not null and h.outcome <> 'operator'
      order by h.number desc
      limit 1
    ), :error) > 0, false)) as matches
  from candidate
),
found as materialized (
  select id, sequence, is_live, number, matches
  from checked
  where matches or number = :scan
  order by sequence {{order}}
  limit :limit
),
encoded as (
  select
    number,
    case
      when is_live
        then (select json_build_array({live}) from {schema}.jobs job where job.id = found.id)
      else (select json_build_array({finished}) from {schema}.finished job where job.id = found.id)
    end as job
  from found
  where matches
)
select json_build_array(
  coalesce((select json_agg(job order by number) from encoded), '[]'),
  (
    select case when count(*) = :limit or max(number) = :scan then (array_agg(sequence order by number desc))[1] end
    from found
  )
);
