-- Count the jobs of each lane (queue and type), and find the lanes with jobs.

-- name: change
-- {{changes}}: only the columns that change. Setting other columns would write their indexes as well.
update tenure_lanes
set {{changes}}
where queue = :queue and type = :type;

-- name: begin
insert into tenure_lanes (queue, type, due, scheduled, running, completed, failed, cancelled)
values (:queue, :type, :due, :scheduled, :running, :completed, :failed, :cancelled);

-- name: drop if empty
delete from tenure_lanes
where
  queue = :queue and type = :type
  and due = 0 and scheduled = 0 and running = 0 and completed = 0 and failed = 0 and cancelled = 0;

-- name: all
-- All lanes. {{index}} is a partial index that contains only lanes with due, or scheduled, jobs.
tenure_lanes lane indexed by {{index}}

-- name: of queues
-- Only the lanes of the requested queues.
json_each(:queues) requested_queue
cross join tenure_lanes lane indexed by {{index}} on lane.queue = requested_queue.value

-- name: of queues and types
-- Only the lanes of the requested queues and types.
json_each(:queues) requested_queue
cross join json_each(:types) requested_type
cross join tenure_lanes lane indexed by {{index}}
  on lane.queue = requested_queue.value and lane.type = requested_type.value
