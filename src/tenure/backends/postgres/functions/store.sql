-- Which store this is: its identity, the same for as long as it is there.

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
