-- Store new jobs, like `Backend.enqueue`.

-- Validate a job and fill in defaults.
create or replace function {schema}.checked_job(given json)
returns {schema}.entry
language plpgsql
as $function$
declare
  job jsonb := {schema}.checked_object('a job', {schema}.checked_json('a job', cast(given as text)), '{job_fields}');
  entry {schema}.entry;
begin
  -- For these fields, null is the same as absent.
  job := job - array(
    select key from jsonb_each(job) where value = 'null' and key = any ('{optional_fields}')
  );
  job := '{job_defaults}' || job;
  if job ? 'run_at' and job ? 'delay' then
    perform {schema}.refused(format(
      'pass run_at or delay, not both: run_at=%s, delay=%s',
      {schema}.shown(job -> 'run_at'), {schema}.shown(job -> 'delay')
    ));
  end if;
  entry.id := case when job ? 'id' then {schema}.checked_name('id', job -> 'id') else {schema}.new_id() end;
  entry.queue := {schema}.checked_name('queue', job -> 'queue');
  entry.type := {schema}.checked_name('type', job -> 'type');
  if job ? 'key' then
    entry.key := {schema}.checked_name('key', job -> 'key');
  end if;
  entry.priority := {schema}.checked_whole(
    'priority', job -> 'priority', {smallest_priority}, {greatest_priority}
  );
  if job ? 'run_at' then
    entry.run_at := {schema}.checked_moment('run_at', job -> 'run_at');
  end if;
  entry.delay := case
    when job ? 'delay' then {schema}.checked_duration('delay', job -> 'delay', 0, {longest_delay}) else 0
  end;
  if job -> 'max_attempts' <> 'null' then
    entry.max_attempts := {schema}.checked_whole('max_attempts', job -> 'max_attempts', 1, {most_attempts});
  end if;
  entry.max_crashes := {schema}.checked_whole('max_crashes', job -> 'max_crashes', 1, {most_attempts});
  if job ? 'timeout' then
    entry.timeout := {schema}.checked_number(
      'timeout in seconds', job -> 'timeout', {shortest_timeout}, {longest_timeout}
    );
  end if;
  if job ? 'meta' then
    entry.meta := {schema}.checked_meta('meta', job -> 'meta');
  end if;
  entry.payload := {schema}.checked_payload(case
    when not job ? 'payload' then '{{}}'
    when jsonb_typeof(job -> 'payload') = 'string' then job ->> 'payload'
    else cast(given -> 'payload' as text)
  end);
  entry.must_be_new := {schema}.checked_choice('on_conflict', job -> 'on_conflict', '{on_conflict_choices}') = 'raise';
  return entry;
end
$function$;

-- Store jobs; return the ids that already exist.
create or replace function {schema}.stored(entries {schema}.entry[])
returns text[]
language plpgsql
as $function$
#variable_conflict use_column
declare
  given_ids text[];
  given_queues text[];
  given_types text[];
  given_keys text[];
  given_priorities integer[];
  given_run_ats timestamptz[];
  given_delays bigint[];
  given_max_attempts integer[];
  given_max_crashes integer[];
  given_timeouts double precision[];
  given_metas text[];
  given_payloads text[];
  taken json;
  duplicates json;
  others text[];
begin
  if entries = '{{}}' then
    return '{{}}';
  end if;
  select
    array_agg(entry.id), array_agg(entry.queue), array_agg(entry.type), array_agg(entry.key),
    array_agg(entry.priority), array_agg(entry.run_at), array_agg(entry.delay), array_agg(entry.max_attempts),
    array_agg(entry.max_crashes), array_agg(entry.timeout), array_agg(entry.meta), array_agg(entry.payload)
  into
    given_ids, given_queues, given_types, given_keys, given_priorities, given_run_ats, given_delays,
    given_max_attempts, given_max_crashes, given_timeouts, given_metas, given_payloads
  from unnest(entries) as entry;
  {sql[enqueue][insert]} into taken;
  {sql[enqueue][undo]} into duplicates;
  others := array(
    select given_ids[cast(number as integer)] from json_array_elements_text(taken) as number
    union all
    select id from json_array_elements_text(duplicates) as id
  );
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    given_ids := array(select id from unnest(given_ids) as id where id not in (select unnest(others)));
    {sql[enqueue][probe finished]};
    {sql[enqueue][remove probe]};
  end if;
  return others;
end
$function$;

-- Decide what to store: return the ids of the response, the positions of the new jobs, and the position of the first
-- job with on_conflict 'raise' whose key is taken. The same decision as in `core/enqueue_plan.py`.
create or replace function {schema}.planned(
  entries {schema}.entry[],
  out answers text[],
  out new_ones integer[],
  out refused_at integer
)
returns record
language plpgsql
as $function$
#variable_conflict use_column
declare
  given_ids text[] := array(select entry.id from unnest(entries) as entry);
  given_queues text[] := array(select entry.queue from unnest(entries) as entry where entry.key is not null);
  given_keys text[] := array(select entry.key from unnest(entries) as entry where entry.key is not null);
  locked bigint;
  held json;
  known json;
  each record;
  holder text;
  -- Indexed by the rank of the id, and by the rank of queue and key, within the request.
  is_taken boolean[] := array_fill(false, array[cardinality(entries)]);
  holders text[] := array_fill(cast(null as text), array[cardinality(entries)]);
begin
  if given_keys <> '{{}}' then
    {sql[enqueue][lock holders of keys]} into locked;
  end if;
  -- Keys first: a job stored between the two reads is then found by its id, not as the holder of its own key.
  {sql[enqueue][holders of keys]} into held;
  {sql[enqueue][stored]} into known;
  answers := given_ids;
  new_ones := '{{}}';
  for each in
    select
      entry.id, entry.key, entry.must_be_new, cast(entry.number as integer) as number,
      dense_rank() over (order by entry.id) as id_rank,
      dense_rank() over (order by entry.queue, entry.key) as key_rank,
      entry.id in (select json_array_elements_text(known)) as is_known, holder.id as holder
    from unnest(entries) with ordinality as entry (
      id, queue, type, key, priority, run_at, delay, max_attempts, max_crashes, timeout, meta, payload, must_be_new,
      number
    )
    left join (
      select distinct held.value ->> 0 as queue, held.value ->> 1 as key, held.value ->> 2 as id
      from json_array_elements(held) as held
    ) holder on holder.queue = entry.queue and holder.key = entry.key
    order by entry.number
  loop
    continue when each.is_known or is_taken[each.id_rank];
    if each.key is not null then
      holder := coalesce(holders[each.key_rank], each.holder);
      if holder is not null then
        answers[each.number] := holder;
        if each.must_be_new then
          refused_at := each.number;
          return;
        end if;
        continue;
      end if;
      holders[each.key_rank] := each.id;
    end if;
    is_taken[each.id_rank] := true;
    new_ones := new_ones || each.number;
  end loop;
end
$function$;

-- jobs: a JSON array of objects. Return the ids in the order given, and whether this call stored them. If the key of a
-- job with on_conflict 'raise' is taken, nothing is stored: its row has key_taken and the id of the job that holds the
-- key. Jobs without keys are stored at once: an existing id is the same job. With keys, the function reads the stored
-- ids and key holders, decides and writes; if a concurrent transaction stores the same id or key meanwhile, it decides
-- again.
create or replace function {schema}.enqueue_many_v1(
  jobs json
)
returns table (id text, created boolean, key_taken boolean)
{as_owner}
as $function$
#variable_conflict use_column
declare
  entries {schema}.entry[] := array(
    select {schema}.checked_job(requested.job)
    from
      json_array_elements({schema}.checked_list('jobs', jobs, {most_enqueued}))
      with ordinality as requested (job, number)
    order by requested.number
  );
  others text[];
  plan record;
begin
  if (select count(distinct entry.id) = count(*) and count(entry.key) = 0 from unnest(entries) as entry) then
    others := {schema}.stored(entries);
    return query
    select entry.id, entry.id not in (select unnest(others)), false
    from unnest(entries) as entry;
    return;
  end if;
  for round in 1 .. {most_rounds} loop
    begin
      select answers, new_ones, refused_at into plan from {schema}.planned(entries);
      if plan.refused_at is null and plan.new_ones <> '{{}}' then
        others := {schema}.stored(array(
          select entries[new.number]
          from unnest(plan.new_ones) with ordinality as new (number, rank)
          order by new.rank
        ));
        if others <> '{{}}' then
          raise exception using errcode = '{conflict}', message = 'conflict with a concurrent enqueue';
        end if;
      end if;
      return query
      select
        answer.id, plan.refused_at is null and answer.number in (select unnest(plan.new_ones)),
        answer.number is not distinct from plan.refused_at
      from unnest(plan.answers) with ordinality as answer (id, number)
      order by answer.number;
      return;
    exception
      -- The subtransaction has rolled back the insert.
      when sqlstate '{conflict}' then null;
    end;
  end loop;
  raise exception using
    errcode = 'serialization_failure',
    message = 'concurrent requests kept changing jobs with the same ids or keys; retry';
end
$function$;

-- Store one job; return its id, or the id of the job that holds the key. With on_conflict => 'raise' a taken key is an
-- error.
create or replace function {schema}.enqueue_v1(
  type text,
  payload json default '{{}}',
  queue text default '{queue}',
  priority integer default {priority},
  run_at timestamptz default null,
  delay double precision default null,
  key text default null,
  on_conflict text default '{on_conflict}',
  max_attempts integer default {max_attempts},
  max_crashes integer default {max_crashes},
  timeout double precision default null,
  meta json default null,
  id text default null
)
returns text
{as_owner}
as $function$
#variable_conflict use_variable
declare
  answer record;
begin
  select enqueued.id, enqueued.key_taken
  into answer
  from {schema}.enqueue_many_v1(json_build_array(json_build_object(
    'type', type, 'payload', payload, 'queue', queue, 'priority', priority, 'run_at', run_at, 'delay', delay, 'key', key,
    'on_conflict', on_conflict, 'max_attempts', max_attempts, 'max_crashes', max_crashes, 'timeout', timeout,
    'meta', meta, 'id', id
  ))) as enqueued;
  if answer.key_taken then
    raise exception using
      errcode = 'unique_violation',
      message = format('key %L of queue %L is taken by job %L', key, queue, answer.id);
  end if;
  return answer.id;
end
$function$;
