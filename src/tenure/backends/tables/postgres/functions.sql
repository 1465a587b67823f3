-- SQL functions of a table, for programs in other languages. The functions contain the statements of the operations,
-- such as {sql[take]}. The values of a statement are variables of the block `tenure_call`.

-- name: claimed
-- The return type of a claim: the row, its fence and its token.
create type {function} as (
  {returned_columns}
)

-- name: claim
create or replace function {function}(
  "limit" integer default 1,
  lease_seconds double precision default {lease},
  worker text default pg_catalog.format('%s/%s', current_user, pg_catalog.pg_backend_pid()),
  token text default cast(pg_catalog.gen_random_uuid() as text){filters}
)
returns setof {claimed}
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  wanted integer := {self}."limit";
  lease_seconds double precision := {self}.lease_seconds;
  lease bigint;
  worker text := {self}.worker;
  token text := {self}.token;
  had integer := 0;
  reap_limit integer := {sweep};
  {row_variables}{variables}
begin
  if tenure_call.wanted is null or tenure_call.wanted not between 1 and {largest_batch} then
    {raise_invalid} format('limit must be 1 to {largest_batch}, not %s', coalesce(cast(tenure_call.wanted as text), 'null'));
  end if;
  if tenure_call.worker is null or tenure_call.worker !~ '{name_form}' then
    {raise_invalid} format('worker must have 1 to {longest_name} printable characters, not %L', tenure_call.worker);
  end if;
  if tenure_call.token is null or tenure_call.token !~ '{name_form}' then
    {raise_invalid} format('token must have 1 to {longest_name} printable characters, not %L', tenure_call.token);
  end if;
  {check_lease}
  {reap_rows};
  {claim_rows};
  if tenure_call.had = 0 and tenure_call.reaped = 0 and tenure_call.rejection is not null then
    {raise_rejection}
  end if;
  return query
  select {row_columns}, cast(job.fence as bigint), tenure_call.token
  from ({jobs}) job
  join {outer_rows} on {row_is[job]}
  where job.state_value = {running} and job.token = tenure_call.token
  order by {claim_order_of[job]};
end
{quote};

-- name: extend
create or replace function {function}(
  {key_parameters},
  fence bigint,
  token text,
  lease_seconds double precision default {lease}
)
returns boolean
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  lease_seconds double precision := {self}.lease_seconds;
  lease bigint;
  request text;
  answer json;
  landed boolean;
begin
  {check_lease}
  tenure_call.request := json_build_object('table', {this_table}, 'claims', json_build_array(json_build_object(
    'key', json_build_array({key_texts}), 'fence', {self}.fence, 'token', {self}.token, 'lease', tenure_call.lease
  )));
  {sql[extend]} into tenure_call.answer;
  tenure_call.landed := tenure_call.answer -> 2 ->> 0 <> '{lost}';
  {check_snapshot}
  return tenure_call.landed;
end
{quote};

-- name: complete
create or replace function {function}(
  {key_parameters},
  fence bigint,
  token text,
  result json default null,
  found_done boolean default false
)
returns boolean
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  result text := coalesce(cast({self}.result as text), 'null');
  added jsonb;
  request text;
  answer json;
  landed boolean;
begin
  perform cast(tenure_call.result as jsonb);
  tenure_call.added := case
    when octet_length(tenure_call.result) > {longest_result} then jsonb_build_object('result_dropped', true)
    else jsonb_build_object('result', tenure_call.result)
  end || case when {self}.found_done then jsonb_build_object('found_done', '{prevented}') else '{{}}' end;
  tenure_call.request := json_build_object('table', {this_table}, 'claims', json_build_array(json_build_object(
    'key', json_build_array({key_texts}), 'fence', {self}.fence, 'token', {self}.token,
    'outcome', '{completed_rule.outcome}', 'state', '{completed_rule.state}', 'attempts', {completed_rule.attempts},
    'added', tenure_call.added
  )));
  {sql[settle]} into tenure_call.answer;
  tenure_call.landed := tenure_call.answer -> 2 ->> 0 = '{landed}';
  {check_snapshot}
  return tenure_call.landed;
end
{quote};

-- name: fail
create or replace function {function}(
  {key_parameters},
  fence bigint,
  token text,
  error text,
  retry_after double precision default null,
  final boolean default false
)
returns text
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  error text := {self}.error;
  attempts integer;
  is_exhausted boolean;
  delay_seconds double precision := {self}.retry_after;
  request text;
  answer json;
  landed boolean;
begin
  if tenure_call.error is null or tenure_call.error = '' then
    {raise_invalid} format('error must be text, not %L', tenure_call.error);
  end if;
  if octet_length(tenure_call.error) > {longest_error} then
    tenure_call.error := {cut} || right(tenure_call.error, {error_kept});
  end if;
  if tenure_call.delay_seconds is not null and not tenure_call.delay_seconds between 0 and {longest_delay} then
    {raise_invalid} format('retry_after must be 0 to {longest_delay} seconds, not %s', tenure_call.delay_seconds);
  end if;
  select coalesce(job.{attempts}, 0)
  into tenure_call.attempts
  from {home} job
  where
    {job_has_key} and job.{state} = {running} and job.{fence} = {self}.fence and job.{token} = {self}.token;
  tenure_call.is_exhausted := coalesce({self}.final, false) or coalesce({is_last_attempt}, false);
  tenure_call.delay_seconds := coalesce(
    tenure_call.delay_seconds,
    random() * least({backoff_cap}, {backoff_first} * power({backoff_factor}, least(coalesce(tenure_call.attempts, 1), 100) - 1))
  );
  tenure_call.request := json_build_object('table', {this_table}, 'claims', json_build_array(json_build_object(
    'key', json_build_array({key_texts}), 'fence', {self}.fence, 'token', {self}.token,
    'outcome', '{failed_rule.outcome}', 'attempts', {failed_rule.attempts}, 'error', tenure_call.error,
    'state', case when tenure_call.is_exhausted then '{failed_rule.when_exhausted}' else '{failed_rule.state}' end,
    'delay', case when not tenure_call.is_exhausted then cast(1000000 * tenure_call.delay_seconds as bigint) end
  )));
  {sql[settle]} into tenure_call.answer;
  tenure_call.landed := tenure_call.answer -> 2 ->> 0 = '{landed}';
  {check_snapshot}
  if not tenure_call.landed then
    return null;
  end if;
  return (select cast(job.{state} as text) from {home} job where {job_has_key});
end
{quote};

-- name: release
create or replace function {function}(
  {key_parameters},
  fence bigint,
  token text
)
returns boolean
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  request text := json_build_object('table', {this_table}, 'claims', json_build_array(json_build_object(
    'key', json_build_array({key_texts}), 'fence', {self}.fence, 'token', {self}.token,
    'outcome', '{released_rule.outcome}', 'state', '{released_rule.state}', 'attempts', {released_rule.attempts}
  )));
  answer json;
  landed boolean;
begin
  {sql[settle]} into tenure_call.answer;
  tenure_call.landed := tenure_call.answer -> 2 ->> 0 = '{landed}';
  {check_snapshot}
  return tenure_call.landed;
end
{quote};

-- name: requeue_expired
create or replace function {function}(
  "limit" integer default {sweep}
)
returns integer
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  reap_limit integer := {self}."limit";
  token text;
  had integer := 0;
  {row_variables}{constants}
begin
  if tenure_call.reap_limit is null or tenure_call.reap_limit not between 1 and {sweep} then
    {raise_invalid} format('limit must be 1 to {sweep}, not %s', coalesce(cast(tenure_call.reap_limit as text), 'null'));
  end if;
  {reap_rows};
  if tenure_call.reaped = 0 and tenure_call.rejection is not null then
    {raise_rejection}
  end if;
  return tenure_call.reaped;
end
{quote};

-- name: retry_failed
create or replace function {function}(
  reason text default null,
  "limit" integer default {largest_batch}{filters}
)
returns integer
{function_options}
as {quote}
#variable_conflict use_column
<<tenure_call>>
declare
  "limit" integer := {self}."limit";
  note text := '{retry}' || coalesce(': ' || {self}.reason, '');
  answer json;{variables}{retry_variables}{key_array_declarations}
begin
  if tenure_call."limit" is null or tenure_call."limit" not between 1 and {largest_batch} then
    {raise_invalid} format('limit must be 1 to {largest_batch}, not %s', coalesce(cast(tenure_call."limit" as text), 'null'));
  end if;
  if octet_length(tenure_call.note) > {longest_error} then
    {raise_invalid} format('reason must have at most {longest_error} bytes, not %s', octet_length(tenure_call.note));
  end if;
  select {key_arrays}
  into {key_array_variables}
  from (
    select {keys_of[job]}
    from ({jobs}) job
    where job.state_value = {failed} and (job.matches_where or job.is_kept)
    order by {claim_order_of[job]}
    limit tenure_call."limit"
  ) found;
  {sql[retry]} into tenure_call.answer;
  return (
    select count(*)
    from json_array_elements(tenure_call.answer) as row (value)
    where cast(row.value ->> 3 as boolean)
  );
end
{quote};
