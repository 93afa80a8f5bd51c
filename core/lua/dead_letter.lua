--[[
  dead_letter.lua: move an entry that a group gave up to the stream's dead letters.

  KEYS[1]  stream    emq:{q}:stream:<name>
  KEYS[2]  stream    emq:{q}:stream:<name>:dead
  KEYS[3]  hash      emq:{q}:seq
  KEYS[4]  hash      emq:{q}:asked:<ms / 5000>, of the candidate
  ARGV[1]  group
  ARGV[2]  entry id
  ARGV[3]  question  the candidate and the writer's token, end to end; empty where there is no candidate
  ARGV[4]  expiry    how long the answer is kept at least, in milliseconds
  ARGV[5]  entry id  the dead letter's candidate, as `append` of sequencer.lua takes it; empty for none
  ARGV[6]  branded
  ARGV[7]  attempts  how often the entry was delivered
  ARGV[8]  error     why its handler failed
  ARGV[9]  at        Unix milliseconds

  RETURNS  the dead letter's branded id, the one it got before where the question was answered already; its fields are
           `origin` (the entry's branded id, or its entry id where it has none), `group`, `attempts`, `error`, `at`, and then
           the entry's own
           0   the entry is not pending in the group; nothing changed
           -1  the entry's data is gone; it was acknowledged
           -2  the entry has more fields than a script can pass on to one command; nothing changed
  ERRORS   NOGROUP   the group does not exist
           EMQAHEAD and WRONGTYPE as `append`
           In each case nothing changed.
]]
local group, entry_id = ARGV[1], ARGV[2]
local answer = ARGV[3] ~= '' and redis.call('HGET', KEYS[4], ARGV[3])
if answer then return answer end
if #redis.call('XPENDING', KEYS[1], group, entry_id, entry_id, 1) == 0 then return 0 end
local entry = redis.call('XRANGE', KEYS[1], entry_id, entry_id)[1]
if not entry then
  redis.call('XACK', KEYS[1], group, entry_id)
  return -1
end

local fields = entry[2]
local ms, tail = string.match(entry_id, '^(%d+)-(%d+)$')
ms, tail = tonumber(ms), tonumber(tail)
local origin, own = entry_id, 1
if fields[1] == 'id' and ms >= 1704067200000 and ms <= 3903090455551 and tail <= 4194303
  and fields[2] == branded(ms, tail) then
  origin, own = fields[2], 3
end

local count = 10 + #fields - own + 1
if count > 7500 then return -2 end
local values = {
  ARGV[5], ARGV[6], count,
  'origin', origin, 'group', group, 'attempts', ARGV[7], 'error', ARGV[8], 'at', ARGV[9],
}
for i = own, #fields do values[#values + 1] = fields[i] end
local id, problem = append(KEYS[2], KEYS[3], KEYS[4], ARGV[3], ARGV[4], 3, values, 1)
if not id then return problem end
redis.call('XACK', KEYS[1], group, entry_id)
return id
