create or replace function {schema}.{name}({parameters})
returns {result}
language sql
security definer
set search_path = {search_path}
as $function$
  select {call};
$function$;
