-- A minimal queue: acknowledge a batch and claim the next.
--
-- KEYS: due (zset, by order), held (zset, by the end of the lease), payloads (hash)
-- ARGV: limit, seconds of the lease, then the ids to acknowledge
-- Result: ids, payloads

if #ARGV > 2 then
  redis.call('zrem', KEYS[2], unpack(ARGV, 3))
  redis.call('hdel', KEYS[3], unpack(ARGV, 3))
end
local taken = redis.call('zpopmin', KEYS[1], ARGV[1])
if #taken == 0 then
  return {{}, {}}
end
local leased_until = redis.call('time')[1] + ARGV[2]
local ids, held = {}, {}
for place = 1, #taken, 2 do
  ids[#ids + 1] = taken[place]
  held[#held + 1] = leased_until
  held[#held + 1] = taken[place]
end
redis.call('zadd', KEYS[2], unpack(held))
return {ids, redis.call('hmget', KEYS[3], unpack(ids))}
