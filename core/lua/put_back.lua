--[[
  put_back.lua: append a dead letter's own fields to its stream as a new record, and remove it from the dead letters.

  KEYS[1]  stream    emq:{q}:stream:<name>
  KEYS[2]  stream    emq:{q}:stream:<name>:dead
  KEYS[3]  hash      emq:{q}:seq
  ARGV[1]  entry id  of the dead letter
  ARGV[2]  ms        the new record's candidate, as `append` of sequencer.lua takes it; empty for none
  ARGV[3]  tail
  ARGV[4]  branded

  RETURNS  the new record's branded id; nothing where the dead letter does not exist
  ERRORS   EMQSTATE  the entry is no dead letter
           EMQAHEAD and WRONGTYPE as `append`
           In each case nothing changed.
]]
local entry = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])[1]
if not entry then return false end

local fields = entry[2]
local head = { 'id', 'origin', 'group', 'attempts', 'error', 'at' }
for i = 1, #head do
  if fields[2 * i - 1] ~= head[i] then return redis.error_reply('EMQSTATE ' .. ARGV[1] .. ' is no dead letter') end
end

local values = { ARGV[2], ARGV[3], ARGV[4], #fields - 2 * #head }
for i = 2 * #head + 1, #fields do values[#values + 1] = fields[i] end
local id, problem = append(KEYS[1], KEYS[3], values)
if not id then return problem end
redis.call('XDEL', KEYS[2], ARGV[1])
return id
