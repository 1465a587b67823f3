-- What is part of a transaction of the caller's: one call each, of the functions that other languages have.
-- Each takes one JSON text, and answers nothing if the connection leads to another store than the one that is asked for.

-- name: enqueue
select cast(
  case when {schema}.store_v1() = given.asked ->> 'store' then (
    select json_agg(json_build_array(job.id, job.created, job.key_taken) order by job.number)
    from {schema}.enqueue_many_v1(given.asked -> 'jobs') with ordinality as job (id, created, key_taken, number)
  ) end as text
)
from (select cast(cast(:asked as text) as json) as asked) given;

-- name: extend
select cast(
  case when {schema}.store_v1() = given.asked ->> 'store' then (
    select json_agg(
      {schema}.extend_v1(
        claim.asked ->> 'id', cast(claim.asked ->> 'fence' as bigint), claim.asked ->> 'token',
        cast(claim.asked ->> 'lease' as double precision), claim.asked -> 'progress'
      )
      order by claim.number
    )
    from json_array_elements(given.asked -> 'claims') with ordinality as claim (asked, number)
  ) end as text
)
from (select cast(cast(:asked as text) as json) as asked) given;

-- name: settle
select cast(
  case when {schema}.store_v1() = given.asked ->> 'store' then (
    select json_agg(claim.landed order by claim.number)
    from {schema}.settle_v1(given.asked -> 'claims') with ordinality as claim (id, landed, number)
  ) end as text
)
from (select cast(cast(:asked as text) as json) as asked) given;

-- name: store
-- Which store this is.
select to_json({schema}.store_v1());
