-- Return the identity of the store, constant for its lifetime.

create or replace function {schema}.store_v1()
returns text
{as_owner}
as $function$
declare
  answer json;
begin
  {sql[schema][identity]} into answer;
  return answer #>> '{{}}';
end
$function$;
