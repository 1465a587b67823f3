-- Collect the writes of a script. `changes.save` writes them at the end: a few commands per key, for any number of
-- jobs.
--
-- Removals are written first. So a script may remove a member and add it again, but not add and then remove it.
--
-- parts: base

local changes = { set_fields = {}, unset_fields = {}, put_members = {}, taken_out_members = {}, finally = {} }

local function pending(all, name)
  local found = all[name]
  if not found then
    found = {}
    all[name] = found
  end
  return found
end

-- Set a field of a hash at the end of the script.
function changes.set(hash, field, value)
  local fields = pending(changes.set_fields, hash)
  local number = #fields
  fields[number + 1], fields[number + 2] = field, value
end

function changes.unset(hash, field)
  local fields = pending(changes.unset_fields, hash)
  fields[#fields + 1] = field
end

-- Add a member to a sorted set, with a score or, without, in lexical order.
function changes.put(sorted_set, member, score)
  local members = pending(changes.put_members, sorted_set)
  local number = #members
  members[number + 1], members[number + 2] = score or 0, member
end

function changes.take_out(sorted_set, member)
  local members = pending(changes.taken_out_members, sorted_set)
  members[#members + 1] = member
end

local function write(command, all, name)
  if all[name] then
    base.call_with(command, name, all[name])
    all[name] = nil
  end
end

-- Write the pending changes of one sorted set, before the script reads the set.
function changes.write(sorted_set)
  write("ZREM", changes.taken_out_members, sorted_set)
  write("ZADD", changes.put_members, sorted_set)
end

-- Write all pending changes, then run the final actions of the parts.
function changes.save()
  base.allow_oom_writes()
  for hash in pairs(changes.unset_fields) do
    write("HDEL", changes.unset_fields, hash)
  end
  for sorted_set in pairs(changes.taken_out_members) do
    write("ZREM", changes.taken_out_members, sorted_set)
  end
  for hash in pairs(changes.set_fields) do
    write("HSET", changes.set_fields, hash)
  end
  for sorted_set in pairs(changes.put_members) do
    write("ZADD", changes.put_members, sorted_set)
  end
  for _, action in ipairs(changes.finally) do
    action()
  end
end
