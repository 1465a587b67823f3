-- Collect the writes of a script. `changes.save` writes them at the end: a few commands per key, for any number of
-- jobs.
--
-- Removals are written first. So a script may remove a member and add it again, but not add and then remove it.
--
-- parts: base

local changes = { set_fields = {}, unset_fields = {}, put_members = {}, taken_out_members = {}, finally = {} }

local function kept(all, name)
  local found = all[name]
  if not found then
    found = {}
    all[name] = found
  end
  return found
end

-- Set a field of a hash at the end of the script.
function changes.set(hash, field, value)
  local fields = kept(changes.set_fields, hash)
  local number = #fields
  fields[number + 1], fields[number + 2] = field, value
end

function changes.unset(hash, field)
  local fields = kept(changes.unset_fields, hash)
  fields[#fields + 1] = field
end

-- Add a member to a sorted set, with a score or, without, in lexical order.
function changes.put(line, member, score)
  local members = kept(changes.put_members, line)
  local number = #members
  members[number + 1], members[number + 2] = score or 0, member
end

function changes.take_out(line, member)
  local members = kept(changes.taken_out_members, line)
  members[#members + 1] = member
end

local function write(command, all, name)
  if all[name] then
    base.call_with(command, name, all[name])
    all[name] = nil
  end
end

-- Write the pending changes of one sorted set, before the script reads the set.
function changes.write(line)
  write("ZREM", changes.taken_out_members, line)
  write("ZADD", changes.put_members, line)
end

-- Write all pending changes, then run the final actions of the parts.
function changes.save()
  base.insist()
  for hash in pairs(changes.unset_fields) do
    write("HDEL", changes.unset_fields, hash)
  end
  for line in pairs(changes.taken_out_members) do
    write("ZREM", changes.taken_out_members, line)
  end
  for hash in pairs(changes.set_fields) do
    write("HSET", changes.set_fields, hash)
  end
  for line in pairs(changes.put_members) do
    write("ZADD", changes.put_members, line)
  end
  for _, action in ipairs(changes.finally) do
    action()
  end
end
