-- Keep the numbers of each queue and type, and find those that have something.

-- name: change
-- {{changes}}: only the columns that change, since an index on another would be written as well.
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
-- Where to find lanes ({{index}} is one of those that only hold lanes which have something): among all of them …
tenure_lanes lane indexed by {{index}}

-- name: of queues
-- … of the queues asked for …
json_each(:queues) asked
cross join tenure_lanes lane indexed by {{index}} on lane.queue = asked.value

-- name: of queues and types
-- … or of the queues and types asked for: so no others are looked at.
json_each(:queues) asked
cross join json_each(:types) wanted
cross join tenure_lanes lane indexed by {{index}} on lane.queue = asked.value and lane.type = wanted.value
