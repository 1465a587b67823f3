-- Claim due jobs, like `Backend.claim` without a hint.

-- queues, types: null for all. token: pass the token of the first request to repeat a claim; null generates one. Return
-- the jobs in the order in which to run them. A token that holds jobs returns these, and nothing changes.
create or replace function {schema}.claim_v1(
  worker text,
  queues text[] default null,
  types text[] default null,
  max_jobs integer default 1,
  lease double precision default {lease},
  token text default null
)
returns setof {schema}.claimed_v1
{as_owner}
as $function$
#variable_conflict use_column
declare
  -- Compare with the collation of the columns, not with that of the arguments.
  given_worker text := {schema}.checked_name('worker', to_jsonb(claim_v1.worker));
  given_queues text[] collate "C" := {schema}.checked_names('queues', claim_v1.queues);
  given_types text[] collate "C" := {schema}.checked_names('types', claim_v1.types);
  given_lease bigint := {schema}.checked_duration('lease', to_jsonb(lease), {shortest_lease}, {longest_lease});
  wanted integer := {schema}.checked_whole('max_jobs', to_jsonb(max_jobs), 1, {largest_batch});
  given_token text collate "C" := {schema}.checked_name(
    'token', to_jsonb(coalesce(claim_v1.token, replace(cast(gen_random_uuid() as text), '-', '')))
  );
  given_evidence_kept bigint := {evidence_kept};
  -- No hint: scan every lane from its start.
  given_at_queues text[] collate "C" := '{{}}';
  given_at_types text[] collate "C" := '{{}}';
  given_at_ranks integer[] := '{{}}';
  given_at_run_ats timestamptz[] := '{{}}';
  given_at_sequences bigint[] := '{{}}';
  given_limit integer := {sweep};
  given_most bigint := wanted + {extra_scan};
  given_had integer := 0;
  answer json;
begin
  {sql[reap][expired]} into answer;
  if given_queues is null then
    {sql[claim][promote]};
  elsif given_types is null then
    {of_queues[claim][promote]};
  else
    {of_queues_and_types[claim][promote]};
  end if;
  loop
    given_limit := wanted - given_had;
    if given_queues is null then
      {sql[claim][take]} into answer;
    elsif given_types is null then
      {of_queues[claim][take]} into answer;
    else
      {of_queues_and_types[claim][take]} into answer;
    end if;
    -- The result: whether the token held jobs before, whether a lane was cut off, and the jobs taken.
    exit when cast(answer ->> 0 as boolean) or not cast(answer ->> 1 as boolean);
    given_had := given_had + case json_typeof(answer #> '{{4,0}}')
      when 'array' then json_array_length(answer #> '{{4,0}}') else 0
    end;
    exit when given_had = wanted;
    given_most := given_most * {scan_growth};
  end loop;
  {sql[claim][held]} into answer;
  return query
  select
    job.value ->> 0, job.value ->> 1, job.value ->> 2, job.value -> 12, cast(job.value ->> 11 as bigint), given_token,
    cast(job.value ->> 6 as integer), cast(job.value ->> 8 as integer), cast(job.value ->> 7 as integer),
    cast(job.value ->> 4 as integer), cast(job.value ->> 5 as timestamptz), cast(job.value ->> 19 as timestamptz),
    cast(job.value ->> 10 as double precision), case when job.value ->> 13 is not null then job.value -> 13 end,
    cast(job.value ->> 14 as timestamptz)
  from json_array_elements(answer) with ordinality as job (value, number)
  order by job.number;
end
$function$;
