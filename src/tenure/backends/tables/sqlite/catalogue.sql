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

-- name: unique indexes
-- The columns of all unique indexes without a condition. The name of an expression is null.
select idx.name, col.name, upper(col.coll)
from pragma_index_list(:table, 'main') as idx
join pragma_index_xinfo(idx.name, 'main') as col
where idx."unique" and not idx.partial and col.key
order by idx.seq, col.seqno;

-- name: triggers
select name, coalesce(sql, '')
from main.sqlite_master
where type = 'trigger' and tbl_name = :table collate nocase
order by name;

-- name: text
select coalesce(sql, '')
from main.sqlite_master
where type = 'table' and name = :table;
