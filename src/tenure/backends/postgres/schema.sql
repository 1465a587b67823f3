-- Read and record the schema version of a database.

-- name: has schema
-- Read from the catalog: `to_regclass` caches a negative result until the transaction ends, even if a concurrent
-- transaction creates the table meanwhile.
select to_json(exists (select from pg_tables where schemaname = :name and tablename = 'versions'));

-- name: version
-- Return the version, and the lowest version that a release must know to use it.
select json_build_array(version, works_from)
from {schema}.versions
order by version desc
limit 1;

-- name: exists
select to_json(exists (select from pg_namespace where nspname = :name));

-- name: create
create schema {schema};

-- name: lock
-- Serialise migrations of a schema. The second key of the lock is the hash of the schema name.
select pg_advisory_xact_lock(1952804469, hashtext(:name));

-- name: applied
insert into {schema}.versions (version, works_from)
values (:version, :works_from);

-- name: identity
-- Return the identity of the store.
select to_json(id)
from {schema}.store;
