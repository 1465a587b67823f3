-- Reap claims whose lease expired, the longest expired first. Every claim also reaps.

create or replace function {schema}.reap_v1(
  max_jobs integer default {sweep}
)
returns table (id text, state text, worker text, fence bigint)
{as_owner}
as $function$
#variable_conflict use_column
declare
  given_limit integer := {schema}.checked_whole('max_jobs', to_jsonb(max_jobs), 1, {sweep});
  given_token text;
  given_evidence_kept bigint := {evidence_kept};
  answer json;
begin
  {sql[reap][expired]} into answer;
  return query
  select job.value ->> 0, job.value ->> 1, job.value ->> 2, cast(job.value ->> 3 as bigint)
  from json_array_elements(answer) with ordinality as job (value, number)
  order by job.number;
end
$function$;
