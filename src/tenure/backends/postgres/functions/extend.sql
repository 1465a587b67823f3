-- Extend a lease, for its holder only. A lease is never shortened.

create or replace function {schema}.checked_progress(given json)
returns text
language plpgsql
as $function$
declare
  progress jsonb;
  note text;
begin
  if given is null then
    return null;
  end if;
  progress := {schema}.checked_object(
    'progress', {schema}.checked_json('progress', cast(given as text)), '{{done, of, note}}'
  );
  perform {schema}.checked_number('done', progress -> 'done', -{greatest_number}, {greatest_number});
  if progress -> 'of' <> 'null' then
    perform {schema}.checked_number('of', progress -> 'of', -{greatest_number}, {greatest_number});
  end if;
  if progress -> 'note' <> 'null' then
    note := {schema}.checked_error('note', progress -> 'note');
  end if;
  return json_build_object('done', progress -> 'done', 'of', progress -> 'of', 'note', note);
end
$function$;

-- progress: an object with done, of and note; null keeps the stored progress. Return 'held', 'cancel requested' (still
-- held; the holder should stop) or 'lost'.
create or replace function {schema}.extend_v1(
  id text,
  fence bigint,
  token text,
  lease double precision default {lease},
  progress json default null
)
returns text
{as_owner}
as $function$
#variable_conflict use_column
declare
  -- Compare with the collation of the columns, not with that of the arguments.
  given_ids text[] collate "C" := array[{schema}.checked_name('id', to_jsonb(extend_v1.id))];
  given_fences bigint[] := array[{schema}.checked_whole('fence', to_jsonb(extend_v1.fence), 1, {greatest_fence})];
  given_tokens text[] collate "C" := array[{schema}.checked_name('token', to_jsonb(extend_v1.token))];
  given_leases bigint[] := array[
    {schema}.checked_duration('lease', to_jsonb(lease), {shortest_lease}, {longest_lease})
  ];
  given_progress text[] := array[{schema}.checked_progress(extend_v1.progress)];
  locked bigint;
  held json;
begin
  {sql[settle][lock]} into locked;
  {sql[extend][extend]} into held;
  if held #> '{{0,0}}' is null then
    perform {schema}.reject_stale_snapshot(given_ids, given_fences);
  end if;
  return case held #>> '{{0,0,1}}' when 'true' then '{cancel_requested}' when 'false' then '{held}' else '{lost}' end;
end
$function$;
