-- Tell all who listen that jobs may be claimed; in a transaction of its own, after the one that made them so.

-- name: ring
-- channel, payload. Nobody waits for the disk: a ring that the server loses is lost with those who would hear it.
select 1
where set_config('synchronous_commit', 'off', true) is not null and pg_notify(:channel, :payload) is not null;
