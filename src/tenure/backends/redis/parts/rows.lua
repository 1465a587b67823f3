-- A job as a script has it: the fields of its row, which are JSON texts.
--
-- A row is what changes of a job, and what it takes to change it. The rest is in `jobs`, and no script looks into that.
--
-- fields: state lane rank sequence run_at attempts crashes fence max_attempts max_crashes leased_until started_at
--         created_at finished_at is_asked first following is_dropped key worker token progress salt
-- parts: changes
-- keys: rows

local WIDTH = 23 -- the number of fields

local rows = { by_id = {}, pattern = "^" .. string.rep("([^,]*),", WIDTH - 1) .. "([^,]*)$" }

-- Return the jobs of these ids; false for each that is not stored. The same id is the same table throughout a script.
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

-- Return something that differs from job to job in most of its characters. Lua tells long texts apart by few of their
-- characters at first, and rows are alike but for that.
function rows.salt_of(sequence)
  return '"' .. sub(redis.sha1hex(sequence), 1, 28) .. '"'
end
