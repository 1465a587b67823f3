-- Return the event counts of every minute in a time span, sorted by minute.
--
-- parts: base
-- keys: counts minutes
-- arguments: now, since, the last field of the previous page (empty for the first page), page size
-- result: pairs of `minute,queue,event` and the count

local since, last, most = base.argument(), base.argument(), base.argument()

local from = last == "" and "[" .. base.minute_of(now - since) or "(" .. last
local fields, answer = call("ZRANGEBYLEX", key.minutes, from, "+", "LIMIT", 0, most), {}
for n, number in ipairs(base.values_of(key.counts, fields)) do
  answer[#answer + 1], answer[#answer + 2] = fields[n], number
end
return answer
