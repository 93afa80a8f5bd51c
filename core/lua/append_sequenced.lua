--[[
  append_sequenced.lua: append records to a stream with several writers: all of them, or none.

  KEYS[1]  stream    emq:{q}:stream:<name>
  KEYS[2]  hash      emq:{q}:seq
  KEYS[3]  hash      emq:{q}:asked:<ms / 5000>, of the first candidate
  ARGV[1]  question  the first candidate and the writer's token, end to end
  ARGV[2]  expiry    how long an answer is kept at least, in milliseconds
  ARGV[3]  sent      how often and with what candidate: 0 to 3, as `append` of sequencer.lua takes it
  ARGV[4]  seen      entries-added of the stream as the writer last knew it; empty where it never did
  ARGV[5]  leased    1 where the candidates' node is leased, else 0
  ARGV[6]  ...       the records, as `append` of sequencer.lua takes them

  RETURNS  the branded ids of the records, fourteen bytes each, end to end: those that the question got before, where it
           was answered already; nothing where it was sent before and nobody can tell, since its candidates may have been
           appended and removed
  ERRORS   EMQAHEAD, EMQSTATE and WRONGTYPE as `append`; nothing was written
]]

local sent = tonumber(ARGV[3])
local size = #ARGV

-- Sent again: a first sending that used the candidates is not on record, but its records are there or were. What is wrong
-- with the values or a key is told by `append`.
if sent and sent > 1 and not redis.pcall('HGET', KEYS[3], ARGV[1]) then
  local ids, at, last = {}, 6
  while at <= size and tonumber(ARGV[at + 2]) do
    ids[#ids + 1] = ARGV[at + 1]
    at, last = at + 3 + math.abs(ARGV[at + 2]), at
  end
  ids = table.concat(ids)

  -- Candidates rise, so where one was used and the question is not on record, all were.
  local written, taken = false, false
  for _, at in ipairs(last and { 6, last } or {}) do
    local entry = redis.pcall('XRANGE', KEYS[1], ARGV[at], ARGV[at])[1]
    if entry then
      local fields, count = entry[2], tonumber(ARGV[at + 2])
      local same = #fields == count + 2 and fields[1] == 'id' and fields[2] == ARGV[at + 1]
      for i = 1, same and count or 0 do same = same and fields[i + 2] == ARGV[at + 2 + i] end
      if same then written = true else taken = true end
    end
  end

  local info = not written and not taken and redis.pcall('XINFO', 'STREAM', KEYS[1])
  local ms, tail = string.match(last and ARGV[last] or '', '^(%d+)-(%d+)$')
  if info and not info.err and ms then
    local told = {}
    for i = 1, #info, 2 do told[info[i]] = info[i + 1] end
    ms, tail = tonumber(ms), tonumber(tail)
    local function reaches(id)
      local other_ms, other_tail = string.match(id, '^(%d+)-(%d+)$')
      other_ms, other_tail = tonumber(other_ms), tonumber(other_tail)
      return other_ms > ms or (other_ms == ms and other_tail >= tail)
    end
    if reaches(told['last-generated-id']) then
      local seen, added = tonumber(ARGV[4]), told['entries-added']
      if ARGV[5] == '1' and told['last-generated-id'] == ARGV[last] then
        written = true
      elseif told['length'] == 0 or reaches(told['max-deleted-entry-id']) or reaches(told['first-entry'][1])
        or not seen or added < seen then
        return false
      end
    end
  end

  if written then
    -- At a full server the answer is not kept. The next question finds the record itself.
    local kept = redis.pcall('HSET', KEYS[3], ARGV[1], ids)
    if type(kept) == 'table' then return string.sub(kept.err, 1, 3) == 'OOM' and ids or kept end
    if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[3], ARGV[2] + 5000) end
    return ids
  end
end

local ids, problem = append(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], sent, ARGV, 6)
return ids or problem
