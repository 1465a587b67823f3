-- Delete finished jobs; also delete lanes that become empty, and the store's own key with the last job.
--
-- parts: endings job_json
-- keys: jobs catalogue

local deleting = { lanes = {} } -- lanes of deleted jobs

function deleting.delete(job)
  changes.take_out(key.catalogue, job.id)
  changes.take_out(key.stopped, job.id)
  changes.take_out(key.finished, endings.finished_member(job))
  local lines = {}
  job_json.add_lines_of(job, lines)
  for _, field in ipairs(lines) do
    changes.unset(key.history, field)
  end
  for _, hash in ipairs({ key.rows, key.jobs, key.results }) do
    changes.unset(hash, job.id)
  end
  counts.add(job.lane, job.state, -1)
  rows.by_id[job.id] = false
  deleting.lanes[job.lane] = true
end

local function number_fields(lane)
  return { lane .. STATE.running, lane .. STATE.completed, lane .. STATE.failed, lane .. STATE.cancelled }
end

local function is_empty(lane)
  for _, number in ipairs(call("HMGET", key.numbers, unpack(number_fields(lane)))) do
    if number and number ~= "0" then
      return false
    end
  end
  return not lanes.first(key.due, lane) and not lanes.first(key.scheduled, lane)
end

changes.finally[#changes.finally + 1] = function()
  for lane in pairs(deleting.lanes) do
    if is_empty(lane) then
      call("HDEL", key.lanes, lane, concat({ lanes.names_of(lane) }, ","))
      call("HDEL", key.numbers, unpack(number_fields(lane)))
      call("SREM", key.open, lane)
      call("ZREM", key.upcoming, lane)
    end
  end
  if next(deleting.lanes) and call("EXISTS", key.catalogue) == 0 then
    call("DEL", key.store)
  end
end
