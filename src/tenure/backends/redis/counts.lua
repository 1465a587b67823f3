-- Tell what happened in each minute of a span, in the order of the minutes.
--
-- parts: base
-- keys: counts minutes
-- arguments: now, since, after which of them to go on (empty to begin), how many at most
-- result: `minute,queue,event` and the number, of each

local since, last, most = base.argument(), base.argument(), base.argument()

local from = last == "" and "[" .. base.minute_of(now - since) or "(" .. last
local fields, answer = call("ZRANGEBYLEX", key.minutes, from, "+", "LIMIT", 0, most), {}
for n, number in ipairs(base.values_of(key.counts, fields)) do
  answer[#answer + 1], answer[#answer + 2] = fields[n], number
end
return answer
