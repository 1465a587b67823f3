-- Notify listeners that jobs may be claimable, in a separate transaction after the one that made them claimable.

-- name: notify
-- channel, payload. The commit does not wait for the disk: a server crash also disconnects all listeners.
select 1
where set_config('synchronous_commit', 'off', true) is not null and pg_notify(:channel, :payload) is not null;
