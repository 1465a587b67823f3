-- The schema version of a file.

-- name: has schema
select exists (select 1 from sqlite_master where type = 'table' and name = 'tenure_schema');

-- name: version
select max(version)
from tenure_schema;

-- name: applied
insert into tenure_schema (version)
values (:version);
