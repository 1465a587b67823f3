-- End claims, for their holders only.

create or replace function {schema}.checked_settlement(given json)
returns {schema}.settlement
language plpgsql
as $function$
declare
  fields jsonb := {schema}.checked_json('a settlement', cast(given as text));
  settlement {schema}.settlement;
begin
  settlement.outcome := {schema}.checked_choice('outcome', fields -> 'outcome', '{outcomes}');
  fields := {schema}.checked_object(
    format('a settlement with outcome %L', settlement.outcome), fields,
    array(select jsonb_array_elements_text(cast('{settlement_fields}' as jsonb) -> settlement.outcome))
  );
  -- For these fields, null is the same as absent.
  fields := fields - array(
    select key from jsonb_each(fields) where value = 'null' and key in ('error', 'delay', 'final')
  );
  settlement.id := {schema}.checked_name('id', fields -> 'id');
  settlement.fence := {schema}.checked_whole('fence', fields -> 'fence', 1, {greatest_fence});
  settlement.token := {schema}.checked_name('token', fields -> 'token');
  if settlement.outcome = 'completed' then
    settlement.result := coalesce(cast(given -> 'result' as text), 'null');
    perform {schema}.checked_content('result', settlement.result, coalesce(fields -> 'result', 'null'));
    settlement.result_dropped := octet_length(settlement.result) > {longest_payload}
      or (fields ? 'result_dropped' and {schema}.checked_truth('result_dropped', fields -> 'result_dropped'));
    if settlement.result_dropped then
      settlement.result := null;
    end if;
  end if;
  if settlement.outcome = 'failed' or fields ? 'error' then
    settlement.error := {schema}.checked_error('error', fields -> 'error');
  end if;
  if settlement.outcome = 'snoozed' or fields ? 'delay' then
    settlement.delay := {schema}.checked_duration('delay', fields -> 'delay', 0, {longest_delay});
  end if;
  settlement.final := fields ? 'final' and {schema}.checked_truth('final', fields -> 'final');
  return settlement;
end
$function$;

-- settlements: a JSON array of objects, at most one for each job. Return, in the order given, whether each landed; if
-- not, the claim is lost and nothing changed.
-- A separate first statement locks the jobs in a fixed order: the next ones have a new snapshot and see them as they
-- are.
create or replace function {schema}.settle_v1(
  settlements json
)
returns table (id text, landed boolean)
{as_owner}
as $function$
#variable_conflict use_column
declare
  checked {schema}.settlement[] := array(
    select {schema}.checked_settlement(requested.settlement)
    from
      json_array_elements({schema}.checked_list('settlements', settlements, {largest_batch}))
      with ordinality as requested (settlement, number)
    order by requested.number
  );
  given_ids text[];
  given_fences bigint[];
  given_tokens text[];
  given_results text[];
  given_results_dropped boolean[];
  given_outcomes text[];
  given_states text[];
  given_attempts integer[];
  given_delays bigint[];
  given_errors text[];
  duplicate text;
  locked bigint;
  attempt_counts json;
  numbers json;
  lost text[] := '{{}}';
begin
  select settlement.id
  into duplicate
  from unnest(checked) as settlement
  group by settlement.id
  having count(*) > 1
  limit 1;
  if found then
    perform {schema}.refused(format('settlements must name each job once, but job %L is named twice', duplicate));
  end if;
  given_ids := array(select settlement.id from unnest(checked) as settlement);
  {sql[settle][lock]} into locked;

  select
    array_agg(settlement.id), array_agg(settlement.fence), array_agg(settlement.token), array_agg(settlement.result),
    array_agg(settlement.result_dropped)
  into given_ids, given_fences, given_tokens, given_results, given_results_dropped
  from unnest(checked) as settlement
  where settlement.outcome = 'completed';
  if given_ids is not null then
    {sql[settle][complete]} into numbers;
    lost := lost || array(select given_ids[cast(number as integer)] from json_array_elements_text(numbers -> 0) as number);
  end if;

  select array_agg(settlement.id), array_agg(settlement.fence), array_agg(settlement.token)
  into given_ids, given_fences, given_tokens
  from unnest(checked) as settlement
  where settlement.outcome <> 'completed';
  if given_ids is not null then
    {sql[settle][attempts]} into attempt_counts;
    -- The same decision as in `core/transitions.py`.
    select
      array_agg(ending.outcome), array_agg(ending.state), array_agg(ending.attempts), array_agg(ending.delay),
      array_agg(ending.error)
    into given_outcomes, given_states, given_attempts, given_delays, given_errors
    from (
      select
        rule.outcome,
        case when job.is_exhausted then coalesce(rule.when_exhausted, rule.state) else rule.state end as state,
        rule.attempts, job.error,
        case
          when rule.outcome in ('failed', 'retried') then coalesce(settlement.delay, job.backoff)
          else settlement.delay
        end as delay
      from (
        select settlement.outcome, settlement.error, settlement.delay, settlement.final, row_number() over () as number
        from unnest(checked) as settlement
        where settlement.outcome <> 'completed'
      ) settlement
      join (
        select
          cast(job.value ->> 0 as bigint) as number, cast(job.value ->> 1 as integer) as attempts,
          cast(job.value ->> 2 as integer) as max_attempts, job.value ->> 3 as ended
        from json_array_elements(attempt_counts) as job
      ) found on found.number = settlement.number
      cross join lateral (
        select
          settlement.final or coalesce(found.attempts >= found.max_attempts, false) as is_exhausted,
          case
            when settlement.outcome = 'retried' and found.attempts >= found.max_attempts then coalesce(
              settlement.error, format('retry requested, but attempt %s was the last', found.attempts)
            )
            else settlement.error
          end as error,
          cast(
            1000000 * random()
            * least({backoff_cap}, {backoff_first} * power({backoff_factor}, least(found.attempts, 100) - 1))
            as bigint
          ) as backoff
      ) job
      -- A retry without attempts left is a failure. A repeated request finds that its retry was recorded as a failure.
      join (values {rules}) as rule (outcome, state, when_exhausted, attempts) on rule.outcome = case
        when settlement.outcome = 'retried' and (job.is_exhausted or found.ended = 'failed') then 'failed'
        else settlement.outcome
      end
      order by settlement.number
    ) ending;
    {sql[settle][end]} into numbers;
    lost := lost || array(select given_ids[cast(number as integer)] from json_array_elements_text(numbers -> 0) as number);
  end if;

  if lost <> '{{}}' then
    perform {schema}.reject_stale_snapshot(
      array(select settlement.id from unnest(checked) as settlement where settlement.id = any (lost)),
      array(select settlement.fence from unnest(checked) as settlement where settlement.id = any (lost))
    );
  end if;
  return query
  select settlement.id, settlement.id <> all (lost)
  from unnest(checked) as settlement;
end
$function$;

create or replace function {schema}.complete_v1(
  id text,
  fence bigint,
  token text,
  result json default null
)
returns boolean
{as_owner}
as $function$
#variable_conflict use_variable
begin
  return (
    select settled.landed
    from {schema}.settle_v1(json_build_array(json_build_object(
      'id', id, 'fence', fence, 'token', token, 'outcome', 'completed', 'result', result
    ))) as settled
  );
end
$function$;

-- Queue the job again after the delay, or after a back-off. Fail it permanently if no attempt is left or `final` is
-- true.
create or replace function {schema}.fail_v1(
  id text,
  fence bigint,
  token text,
  error text,
  final boolean default false,
  delay double precision default null
)
returns boolean
{as_owner}
as $function$
#variable_conflict use_variable
begin
  return (
    select settled.landed
    from {schema}.settle_v1(json_build_array(json_build_object(
      'id', id, 'fence', fence, 'token', token, 'outcome', 'failed', 'error', error, 'final', final, 'delay', delay
    ))) as settled
  );
end
$function$;
