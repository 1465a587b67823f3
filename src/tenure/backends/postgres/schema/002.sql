-- Which store this is, and what its functions answer. The functions themselves are made anew after every migration.

-- One row. Who joins a job to a transaction of theirs sees by it that this is the store they mean, and not one of the
-- same name in another database.
create table {schema}.store (
  id text not null
);

create unique index store_is_one on {schema}.store ((true));

insert into {schema}.store (id)
values (gen_random_uuid()::text);

-- A claim, as `claim_v1` answers it.
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

-- A job that is to be stored, checked: what the functions pass to each other.
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

-- The end of a claim as its holder asks for it, checked.
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
