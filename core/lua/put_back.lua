--[[
  put_back.lua: append a dead letter's own fields to its stream as a new record, and remove it from the dead letters.

  KEYS[1]  stream    emq:{q}:stream:<name>
  KEYS[2]  stream    emq:{q}:stream:<name>:dead
  KEYS[3]  hash      emq:{q}:seq
  KEYS[4]  hash      emq:{q}:asked:<ms / 5000>, of the candidate
  ARGV[1]  entry id  of the dead letter
  ARGV[2]  question  the candidate and the writer's token, end to end; empty where there is no candidate
  ARGV[3]  expiry    how long the answer is kept at least, in milliseconds
  ARGV[4]  entry id  the new record's candidate, as `append` of sequencer.lua takes it; empty for none
  ARGV[5]  branded

  RETURNS  the new record's branded id, the one it got before where the question was answered already
           nothing  the dead letter does not exist
           -2       the dead letter has more fields than a script can pass on to one command; nothing changed
  ERRORS   EMQSTATE  the entry is no dead letter
           EMQAHEAD and WRONGTYPE as `append`
           In each case nothing changed.
]]
local answer = ARGV[2] ~= '' and redis.call('HGET', KEYS[4], ARGV[2])
if answer then return answer end
local entry = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])[1]
if not entry then return false end

local fields = entry[2]
local head = { 'id', 'origin', 'group', 'attempts', 'error', 'at' }
for i = 1, #head do
  if fields[2 * i - 1] ~= head[i] then return redis.error_reply('EMQSTATE ' .. ARGV[1] .. ' is no dead letter') end
end

local count = #fields - 2 * #head
if count > 7500 then return -2 end
local values = { ARGV[4], ARGV[5], count }
for i = 2 * #head + 1, #fields do values[#values + 1] = fields[i] end
local id, problem = append(KEYS[1], KEYS[3], KEYS[4], ARGV[2], ARGV[3], 3, values, 1)
if not id then return problem end
redis.call('XDEL', KEYS[2], ARGV[1])
return id
