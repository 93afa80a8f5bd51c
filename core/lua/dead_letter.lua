--[[
  dead_letter.lua: move an entry that a group gave up to the stream's dead letters.

  KEYS[1]  stream    emq:{q}:stream:<name>
  KEYS[2]  stream    emq:{q}:stream:<name>:dead
  KEYS[3]  hash      emq:{q}:seq
  ARGV[1]  group
  ARGV[2]  entry id
  ARGV[3]  ms        the dead letter's candidate, as `append` of sequencer.lua takes it; empty for none
  ARGV[4]  tail
  ARGV[5]  branded
  ARGV[6]  attempts  how often the entry was delivered
  ARGV[7]  error     why its handler failed
  ARGV[8]  at        Unix milliseconds

  RETURNS  the dead letter's branded id; its fields are `origin` (the entry's branded id, or its entry id where it has
           none), `group`, `attempts`, `error`, `at`, and then the entry's own
           0   the entry is not pending in the group; nothing changed
           -1  the entry's data is gone; it was acknowledged
  ERRORS   NOGROUP   the group does not exist
           EMQSTATE  the entry has more values than one command can be given
           EMQAHEAD and WRONGTYPE as `append`
           In each case nothing changed.
]]
local group, entry_id = ARGV[1], ARGV[2]
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

local values = {
  ARGV[3], ARGV[4], ARGV[5], 10 + #fields - own + 1,
  'origin', origin, 'group', group, 'attempts', ARGV[6], 'error', ARGV[7], 'at', ARGV[8],
}
for i = own, #fields do values[#values + 1] = fields[i] end
local id, problem = append(KEYS[2], KEYS[3], values)
if not id then return problem end
redis.call('XACK', KEYS[1], group, entry_id)
return id
