--[[
  keep_pending.lua: say how long entries that are pending for a consumer have been idle.

  A consumer that has entries in hand says "not at all" and keeps them from being reclaimed; one that stops, or whose
  entry is to be tried again, says how much of the idle time has passed, and any consumer may take them sooner.

  KEYS[1]  stream    emq:{q}:stream:<name>
  ARGV[1]  group
  ARGV[2]  consumer
  ARGV[3]  idle time in milliseconds
  ARGV     entry ids, at most 1000

  RETURNS  how many of the entries are pending for this consumer; the others, acknowledged or in the hands of another,
           were left alone
  ERRORS   NOGROUP
]]
local own = {}
for i = 4, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
  if #pending > 0 then own[#own + 1] = ARGV[i] end
end
if #own > 0 then
  -- The delivery count stays as it is, and the entries themselves do not travel.
  local command = { 'XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(own) }
  local options = { 'IDLE', ARGV[3], 'JUSTID' }
  for i = 1, #options do command[#command + 1] = options[i] end
  redis.call(unpack(command))
end
return #own
