-- Which schema a database has.

-- name: has schema
-- Read as a row: what `to_regclass` did not find once, it may not find until the transaction ends, though somebody else
-- has made it meanwhile.
select to_json(exists (select from pg_tables where schemaname = :name and tablename = 'versions'));

-- name: version
-- The version, and the oldest that a tenure may know to work with it.
select json_build_array(version, works_from)
from {schema}.versions
order by version desc
limit 1;

-- name: exists
select to_json(exists (select from pg_namespace where nspname = :name));

-- name: create
create schema {schema};

-- name: alone
-- One at a time brings a schema up to date. The number is that of its name.
select pg_advisory_xact_lock(1952804469, hashtext(:name));

-- name: applied
insert into {schema}.versions (version, works_from)
values (:version, :works_from);

-- name: identity
-- Which store this is.
select to_json(id)
from {schema}.store;
