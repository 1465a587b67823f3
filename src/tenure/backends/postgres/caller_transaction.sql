-- Operations inside the caller's transaction: each statement is one call of a public SQL function.
-- A statement takes one JSON text. It returns the transaction id and the result, or null if the connection leads to
-- another store than the expected one. A copy of a database contains the same store ids, so the identity includes the
-- database.

-- name: enqueue
select cast(
  case when {this_store} = given.request ->> 'store' then json_build_array(cast(pg_current_xact_id() as text), (
    select json_agg(json_build_array(job.id, job.created, job.key_taken) order by job.number)
    from {schema}.enqueue_many_v1(given.request -> 'jobs') with ordinality as job (id, created, key_taken, number)
  )) end as text
)
from (select cast(cast(:request as text) as json) as request) given;

-- name: extend
select cast(
  case when {this_store} = given.request ->> 'store' then json_build_array(cast(pg_current_xact_id() as text), (
    select json_agg(
      {schema}.extend_v1(
        claim.value ->> 'id', cast(claim.value ->> 'fence' as bigint), claim.value ->> 'token',
        cast(claim.value ->> 'lease' as double precision), claim.value -> 'progress'
      )
      order by claim.number
    )
    from json_array_elements(given.request -> 'claims') with ordinality as claim (value, number)
  )) end as text
)
from (select cast(cast(:request as text) as json) as request) given;

-- name: settle
select cast(
  case when {this_store} = given.request ->> 'store' then json_build_array(cast(pg_current_xact_id() as text), (
    select json_agg(claim.landed order by claim.number)
    from {schema}.settle_v1(given.request -> 'claims') with ordinality as claim (id, landed, number)
  )) end as text
)
from (select cast(cast(:request as text) as json) as request) given;

-- name: store
-- Return the identity of the store.
select to_json({this_store});

-- name: is open
-- Return whether the transaction with this id is still open.
select to_json(coalesce(pg_xact_status(cast(:number as xid8)) = 'in progress', false));
