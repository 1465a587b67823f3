-- Check arguments before anything changes. Limits and messages are those of Python.
-- Only the other functions call these; they set the rights and the search path.

create or replace function {schema}.refused(message text)
returns text
language plpgsql
as $function$
begin
  raise exception using errcode = 'invalid_parameter_value', message = message;
end
$function$;

-- Raise if a claim may seem lost only because the snapshot of the transaction is older than the claim: then the snapshot
-- has no job with this fence or a later one.
create or replace function {schema}.reject_stale_snapshot(ids text[], fences bigint[])
returns void
language plpgsql
as $function$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') and exists (
    select
    from unnest(ids, fences) as lost (id, fence)
    where
      not exists (select from {schema}.jobs job where job.id = lost.id and job.fence >= lost.fence)
      and not exists (select from {schema}.finished job where job.id = lost.id and job.fence >= lost.fence)
  ) then
    raise exception using
      errcode = 'serialization_failure',
      message = 'the snapshot of the transaction may be older than the claim; repeat the transaction';
  end if;
end
$function$;

-- Format a value for an error message, shortened if necessary.
create or replace function {schema}.shown(given jsonb)
returns text
language plpgsql
as $function$
declare
  value text := coalesce(given #>> '{{}}', 'null');
begin
  if length(value) > {longest_shown} then
    value := left(value, {longest_shown}) || '…';
  end if;
  return case when jsonb_typeof(given) = 'string' then quote_literal(value) else value end;
end
$function$;

-- Parse as `jsonb`, which rejects NUL, lone surrogates and numbers out of range. `convert_to` rejects invalid bytes,
-- which a database without encoding accepts.
create or replace function {schema}.checked_json(option text, given text)
returns jsonb
language plpgsql
as $function$
begin
  perform convert_to(given, 'UTF8');
  return cast(given as jsonb);
exception
  when data_exception or program_limit_exceeded then
    perform {schema}.refused(format('%s is not JSON that every store accepts: %s', option, sqlerrm));
end
$function$;

-- Count the members of all objects in a JSON text, including duplicate keys.
create or replace function {schema}.members(given text)
returns integer
language plpgsql
as $function$
begin
  return regexp_count(regexp_replace(given, '"(\\.|[^"\\])*"', '', 'g'), ':');
end
$function$;

-- Check JSON that is stored as its original text. `value` is the parsed text, which keeps only the last of duplicate
-- keys, while readers of the stored text may see the others.
create or replace function {schema}.checked_content(option text, given text, value jsonb)
returns jsonb
language plpgsql
as $function$
begin
  if {schema}.members(given) <> {schema}.members(cast(value as text)) then
    perform {schema}.refused(format('%s has an object with a duplicate key', option));
  end if;
  if jsonb_path_exists(value, 'strict $.**{{{too_deep}}}') then
    perform {schema}.refused(format('%s is nested more than %s deep', option, {deepest}));
  end if;
  if jsonb_path_exists(
    value, 'strict $.** ? (@.type() == "number" && (@ > {greatest_double} || @ < -{greatest_double}))'
  ) then
    perform {schema}.refused(format('%s has a number too large for a double', option));
  end if;
  return value;
end
$function$;

create or replace function {schema}.checked_list(option text, given json, most integer)
returns json
language plpgsql
as $function$
begin
  if given is null or json_typeof(given) <> 'array' then
    perform {schema}.refused(format('%s must be a JSON array, not %s', option, coalesce(json_typeof(given), 'null')));
  end if;
  if json_array_length(given) > most then
    perform {schema}.refused(format('%s has %s entries; the limit is %s', option, json_array_length(given), most));
  end if;
  return given;
end
$function$;

create or replace function {schema}.checked_object(option text, given jsonb, known text[])
returns jsonb
language plpgsql
as $function$
declare
  unknown text;
begin
  if given is null or jsonb_typeof(given) <> 'object' then
    perform {schema}.refused(format('%s must be a JSON object, not %s', option, {schema}.shown(given)));
  end if;
  select field into unknown from jsonb_object_keys(given) as field where field <> all (known) limit 1;
  if found then
    perform {schema}.refused(format(
      '%s has no option %s; the options are %s', option, {schema}.shown(to_jsonb(unknown)), array_to_string(known, ', ')
    ));
  end if;
  return given;
end
$function$;

create or replace function {schema}.checked_name(option text, given jsonb)
returns text
language plpgsql
as $function$
declare
  value text collate "C" := given #>> '{{}}';
begin
  if value is null or jsonb_typeof(given) <> 'string' then
    perform {schema}.refused(format('%s must be a string, not %s', option, {schema}.shown(given)));
  end if;
  if length(value) not between 1 and {longest_name} then
    perform {schema}.refused(format(
      '%s must have 1 to {longest_name} characters, not %s: %s', option, length(value), {schema}.shown(given)
    ));
  end if;
  -- A database without encoding accepts invalid bytes; this rejects them.
  perform convert_to(value, 'UTF8');
  if
    value ~ '^ | $' or value ~ '[{control_characters}]'
    or (getdatabaseencoding() = 'UTF8' and value ~ '[{invisible_characters}]')
  then
    perform {schema}.refused(format(
      '%s must be printable text without space around it, not %s', option, {schema}.shown(given)
    ));
  end if;
  return value;
end
$function$;

-- Check one or more names, and remove duplicates; null stays null.
create or replace function {schema}.checked_names(option text, given text[])
returns text[]
language plpgsql
as $function$
begin
  if given is null then
    return null;
  end if;
  if cardinality(given) not between 1 and {largest_batch} then
    perform {schema}.refused(format(
      '%s must name 1 to {largest_batch}, not %s; leave it out for all', option, cardinality(given)
    ));
  end if;
  return array(select distinct {schema}.checked_name(option, to_jsonb(name)) collate "C" from unnest(given) as name);
end
$function$;

create or replace function {schema}.checked_whole(option text, given jsonb, smallest bigint, largest bigint)
returns bigint
language plpgsql
as $function$
declare
  value numeric := case when jsonb_typeof(given) = 'number' then cast(given as numeric) end;
begin
  if value is null or value <> trunc(value) then
    perform {schema}.refused(format('%s must be a whole number, not %s', option, {schema}.shown(given)));
  end if;
  if value not between smallest and largest then
    perform {schema}.refused(format('%s must be %s to %s, not %s', option, smallest, largest, {schema}.shown(given)));
  end if;
  return value;
end
$function$;

create or replace function {schema}.checked_number(option text, given jsonb, smallest numeric, largest numeric)
returns double precision
language plpgsql
as $function$
declare
  value numeric := case when jsonb_typeof(given) = 'number' then cast(given as numeric) end;
begin
  if value is null or value not between smallest and largest then
    perform {schema}.refused(format(
      '%s must be a number from %s to %s, not %s', option, smallest, largest, {schema}.shown(given)
    ));
  end if;
  return value;
end
$function$;

-- Check a duration in seconds, and return microseconds.
create or replace function {schema}.checked_duration(option text, given jsonb, smallest numeric, largest numeric)
returns bigint
language plpgsql
as $function$
begin
  return round({schema}.checked_number(option || ' in seconds', given, smallest, largest) * 1000000);
end
$function$;

-- Check a timestamp. The time zone is required, so that the result does not depend on the caller's settings.
create or replace function {schema}.checked_moment(option text, given jsonb)
returns timestamptz
language plpgsql
as $function$
declare
  value text := given #>> '{{}}';
  moment timestamptz;
begin
  if value ~ '^\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d(:\d\d)?)?)$' then
    begin
      moment := cast(value as timestamptz);
    exception
      when datetime_field_overflow or invalid_datetime_format then
        moment := null;
    end;
  end if;
  if moment is null then
    perform {schema}.refused(format(
      '%s must be a timestamp with time zone, such as 2026-01-31T12:00:00Z, not %s', option, {schema}.shown(given)
    ));
  end if;
  if moment not between '{earliest}' and '{latest}' then
    perform {schema}.refused(format(
      '%s must be from {earliest} to {latest}, not %s', option, {schema}.shown(given)
    ));
  end if;
  return moment;
end
$function$;

create or replace function {schema}.checked_choice(option text, given jsonb, allowed text[])
returns text
language plpgsql
as $function$
begin
  if (jsonb_typeof(given) = 'string' and given #>> '{{}}' = any (allowed)) is not true then
    perform {schema}.refused(format(
      '%s must be %s, not %s',
      option, (select string_agg(quote_literal(word), ' or ') from unnest(allowed) as word), {schema}.shown(given)
    ));
  end if;
  return given #>> '{{}}';
end
$function$;

create or replace function {schema}.checked_truth(option text, given jsonb)
returns boolean
language plpgsql
as $function$
begin
  if (jsonb_typeof(given) = 'boolean') is not true then
    perform {schema}.refused(format('%s must be true or false, not %s', option, {schema}.shown(given)));
  end if;
  return cast(given as boolean);
end
$function$;

-- Check the text of an error. A text that is too long loses its beginning: the cause is at the end.
create or replace function {schema}.checked_error(option text, given jsonb)
returns text
language plpgsql
as $function$
declare
  value text := given #>> '{{}}';
  bytes bytea;
begin
  if coalesce(value, '') = '' or jsonb_typeof(given) <> 'string' then
    perform {schema}.refused(format('%s must be text, not %s', option, {schema}.shown(given)));
  end if;
  bytes := convert_to(value, 'UTF8');
  if length(bytes) <= {longest_error} then
    return value;
  end if;
  bytes := substr(bytes, length(bytes) - {longest_error} + octet_length({cut}) + 1);
  -- Drop the rest of a character that was cut apart.
  while get_byte(bytes, 0) between 128 and 191 loop
    bytes := substr(bytes, 2);
  end loop;
  return {cut} || convert_from(bytes, 'UTF8');
end
$function$;

-- Check the labels of a job; return null for none.
create or replace function {schema}.checked_meta(option text, given jsonb)
returns text
language plpgsql
as $function$
declare
  label text;
  content jsonb;
  size integer := 0;
begin
  if jsonb_typeof(given) <> 'object' then
    perform {schema}.refused(format('%s must map strings to strings, not %s', option, {schema}.shown(given)));
  end if;
  for label, content in select key, value from jsonb_each(given) loop
    perform {schema}.checked_name(option || ' label', to_jsonb(label));
    if jsonb_typeof(content) <> 'string' then
      perform {schema}.refused(format('%s[%L] must be text, not %s', option, label, {schema}.shown(content)));
    end if;
    size := size + octet_length(label) + octet_length(content #>> '{{}}');
  end loop;
  if size > {longest_meta} then
    perform {schema}.refused(format('%s has %s bytes; the limit is {longest_meta}', option, size));
  end if;
  return nullif(cast(given as text), '{{}}');
end
$function$;

-- Check the payload of a job, and return its text unchanged.
create or replace function {schema}.checked_payload(given text)
returns text
language plpgsql
as $function$
declare
  value jsonb := {schema}.checked_json('payload', given);
begin
  if (jsonb_typeof(value) = 'object') is not true then
    perform {schema}.refused(format('the payload must be a JSON object, not %s', {schema}.shown(value)));
  end if;
  if octet_length(given) > {longest_payload} then
    perform {schema}.refused(format(
      'the payload has %s bytes of JSON; the limit is {longest_payload}. Store the data elsewhere and pass its name',
      octet_length(given)
    ));
  end if;
  perform {schema}.checked_content('payload', given, value);
  return given;
end
$function$;

-- Return a time-ordered id: a UUID version 7, built from a random UUID and the time in milliseconds.
create or replace function {schema}.new_id()
returns text
language plpgsql
as $function$
declare
  bytes bytea := uuid_send(gen_random_uuid());
  milliseconds bytea := int8send(cast(floor(extract(epoch from statement_timestamp()) * 1000) as bigint));
begin
  bytes := overlay(bytes placing substr(milliseconds, 3) from 1 for 6);
  bytes := set_byte(bytes, 6, 112 | (get_byte(bytes, 6) & 15));
  return cast(encode(bytes, 'hex') as uuid);
end
$function$;
