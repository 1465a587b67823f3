-- Encode jobs for a response, as one JSON text.
--
-- parts: rows
-- keys: jobs results history

local job_json = {}

-- Add the fields of a job's history lines, the oldest first.
function job_json.add_lines_of(job, fields)
  for number = job.first_line, job.next_line - 1 do
    fields[#fields + 1] = number .. ":" .. job.id
  end
end

-- Return the stored jobs as JSON. Call `changes.save` before.
function job_json.as_json(some)
  local ids, completed, fields, last_line = {}, {}, {}, { [0] = 0 }
  for n, job in ipairs(some) do
    ids[n] = job.id
    completed[#completed + 1] = job.state == STATE.completed and job.id or nil
    job_json.add_lines_of(job, fields)
    last_line[n] = #fields
  end
  local lines, results, number = base.values_of(key.history, fields), base.values_of(key.results, completed), 0
  local pieces = { "[" }
  for n, content in ipairs(base.values_of(key.jobs, ids)) do
    local job, result, last = some[n], "null", #pieces
    if job.state == STATE.completed then
      number = number + 1
      result = results[number] or "null"
    end
    pieces[last + 1], pieces[last + 2] = n == 1 and "[" or ",[", content
    pieces[last + 3], pieces[last + 4] = ",", job.row
    pieces[last + 5], pieces[last + 6] = ",", result
    pieces[last + 7], pieces[last + 8] = ",[", concat(lines, ",", last_line[n - 1] + 1, last_line[n])
    pieces[last + 9] = "]]"
  end
  pieces[#pieces + 1] = "]"
  return concat(pieces)
end
