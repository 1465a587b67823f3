-- Store new jobs.

-- name: stored
-- ids: a JSON list. The ids that are already stored, finished or not.
select id
from tenure_jobs
where id in (select value from json_each(:ids));

-- name: holder of the key
-- The live job of the queue with this key.
select id
from tenure_jobs
where queue = :queue and key = :key and key is not null and state in ('queued', 'running');

-- name: last
-- The last sequence number in enqueue order, even if its job was deleted.
select coalesce(max(seq), 0)
from sqlite_sequence
where name = 'tenure_jobs';

-- name: job
insert into tenure_jobs (
  sequence, id, queue, type, key, priority, run_at, is_due, max_attempts, max_crashes, timeout, meta, created_at
)
values (
  :sequence, :id, :queue, :type, :key, :priority, :run_at, :is_due, :max_attempts, :max_crashes, :timeout, :meta, :now
);

-- name: payload
insert into tenure_payloads (job, payload)
values (:sequence, :payload);
