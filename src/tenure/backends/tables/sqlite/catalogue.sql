-- What the file says of its tables.

-- name: schema version
-- A number that is another one when the schema has changed.
pragma main.schema_version;

-- name: things
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
-- Without a name, it is an expression.
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
