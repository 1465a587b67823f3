-- Jobs in a script: arrays of the fields of a row, as JSON texts.
--
-- A row contains the fields of a job that change, and the fields that scripts need to change them. The other fields are
-- in `jobs`, which no script parses. The history of a job has the lines first_line to next_line - 1.
--
-- fields: state lane rank sequence run_at attempts crashes fence max_attempts max_crashes leased_until started_at
--         created_at finished_at cancel_requested first_line next_line result_dropped key worker token progress salt
-- parts: changes
-- keys: rows

local WIDTH = 23 -- the number of fields

local rows = { by_id = {}, pattern = "^" .. string.rep("([^,]*),", WIDTH - 1) .. "([^,]*)$" }

-- Return the jobs of the ids; false for an unknown id. Within a script, the same id returns the same table.
function rows.of(ids)
  local by_id, pattern, unread, found = rows.by_id, rows.pattern, {}, {}
  for _, id in ipairs(ids) do
    if by_id[id] == nil then
      by_id[id] = false
      unread[#unread + 1] = id
    end
  end
  for n, row in ipairs(base.values_of(key.rows, unread)) do
    if row then
      local id, job = unread[n], { match(row, pattern) }
      job.id, job.row = id, row
      by_id[id] = job
    end
  end
  for n, id in ipairs(ids) do
    found[n] = by_id[id]
  end
  return found
end

function rows.change(job)
  job.row = concat(job, ",", 1, WIDTH)
  changes.set(key.rows, job.id, job.row)
end

-- Return a text that differs between jobs in most of its characters. Lua hashes a long string by a few of its
-- characters, and rows without a salt are so alike that their hashes collide.
function rows.salt_of(sequence)
  return '"' .. sub(redis.sha1hex(sequence), 1, 28) .. '"'
end
