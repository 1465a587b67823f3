-- The identity of the store, and the types that its functions use. Every migration recreates the functions themselves.

-- One row. A client that runs operations in its own transaction checks by the id that the connection leads to the
-- intended store, and not to a store of the same name in another database.
create table {schema}.store (
  id text not null
);

create unique index store_is_one on {schema}.store ((true));

insert into {schema}.store (id)
values (gen_random_uuid()::text);

-- A claim, as returned by `claim_v1`.
create type {schema}.claimed_v1 as (
  id           text,
  type         text,
  queue        text,
  payload      json,
  fence        bigint,
  token        text,
  attempts     integer,
  max_attempts integer,
  crashes      integer,
  priority     integer,
  run_at       timestamptz,
  leased_until timestamptz,
  timeout      double precision,
  meta         json,
  created_at   timestamptz
);

-- A validated new job, as the functions pass it to each other.
create type {schema}.entry as (
  id           text,
  queue        text,
  type         text,
  key          text,
  priority     integer,
  run_at       timestamptz,
  delay        bigint,
  max_attempts integer,
  max_crashes  integer,
  timeout      double precision,
  meta         text,
  payload      text,
  must_be_new  boolean
);

-- A validated settlement.
create type {schema}.settlement as (
  id             text,
  fence          bigint,
  token          text,
  outcome        text,
  result         text,
  result_dropped boolean,
  error          text,
  delay          bigint,
  final          boolean
);
