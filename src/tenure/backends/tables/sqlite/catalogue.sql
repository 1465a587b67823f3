-- Read the catalogue of the file.

-- name: schema version
-- The number changes whenever the schema changes.
pragma main.schema_version;

-- name: tables and views
select type, name, coalesce(sql, '')
from main.sqlite_master
where type in ('table', 'view') and name not like 'sqlite\_%' escape '\';

-- name: columns
select name, type, "notnull", dflt_value, pk, hidden
from pragma_table_xinfo(:table, 'main')
order by cid;

-- name: indexes
select name, "unique", origin, partial
from pragma_index_list(:table, 'main');

-- name: indexed columns
-- The name of an expression is null.
select name
from pragma_index_info(:index, 'main')
order by seqno;

-- name: triggers
select name, coalesce(sql, '')
from main.sqlite_master
where type = 'trigger' and tbl_name = :table collate nocase
order by name;

-- name: text
select coalesce(sql, '')
from main.sqlite_master
where type = 'table' and name = :table;
