--[[
  remove_consumers.lua: remove consumers of a group that hold nothing, in the step that looks.

  KEYS[1]  stream    emq:{q}:stream:<name>
  ARGV[1]  name      the group
  ARGV[2]  CONSUMER  remove the one that ARGV[3] names
           IDLE      remove all that hold nothing and are idle for more than ARGV[3]
  ARGV[3]  name of a consumer, or milliseconds since a consumer last asked

  RETURNS  the names of those that went
  ERRORS   EMQSTATE <count>  so many entries are pending for the consumer named
           NOGROUP <text>    the stream or the group is not there
           WRONGTYPE         the key holds something else
           In each case nothing was removed.
]]
if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('NOGROUP no group ' .. ARGV[1] .. ', since there is no stream')
end
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if consumers.err then return consumers end

local function member(info, name)
  for i = 1, #info, 2 do
    if info[i] == name then return info[i + 1] end
  end
end

local by_name, limit = ARGV[2] == 'CONSUMER', tonumber(ARGV[3])
local going = {}
for _, info in ipairs(consumers) do
  local name, pending = member(info, 'name'), member(info, 'pending')
  if by_name and name == ARGV[3] then
    if pending > 0 then return redis.error_reply('EMQSTATE ' .. pending) end
    going[1] = name
  elseif not by_name and pending == 0 and member(info, 'idle') > limit then
    going[#going + 1] = name
  end
end

for _, name in ipairs(going) do
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], name)
end
return going
