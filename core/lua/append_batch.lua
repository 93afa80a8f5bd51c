--[[
  append_batch.lua: append all records of a batch, or none of them.

  KEYS[1]  stream    emq:{q}:stream:<name>
  ARGV     records, one behind the other, each written as
             ms        entry id, the part before the dash
             seq       entry id, the part behind it
             count     how many arguments follow for this record
             ...       its fields as XADD takes them, `id` and the branded id first

  RETURNS  how many records were appended: all of them
  ERRORS   EMQSTALE <entry id>   the first record is not above the stream's last id, which follows
           EMQSTATE <text>       the records are not in rising order, one has more than 7000 arguments, or the
                                 arguments do not add up
           WRONGTYPE             the key holds something else
           In each case nothing was appended.
]]
-- Entry ids are compared as two numbers: `<` on strings follows the server's locale, and a snowflake does not fit a
-- double, while milliseconds and the 22-bit part do.
local function above(ms, seq, other_ms, other_seq)
  return ms > other_ms or (ms == other_ms and seq > other_seq)
end

-- The stream's last id, which outlives the entry that had it.
local function last_id(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then return '0-0' end
  local info = redis.call('XINFO', 'STREAM', key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
end

local last = last_id(KEYS[1])
local dash = string.find(last, '-', 1, true)
local top_ms, top_seq = tonumber(string.sub(last, 1, dash - 1)), tonumber(string.sub(last, dash + 1))

-- Nothing is rolled back, so everything is checked before the first write; `unpack` fails beyond 7000 or so.
local at, records = 1, 0
while at <= #ARGV do
  local ms, seq, count = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if not (ms and seq and count) or count % 2 ~= 0 or count > 7000 or at + 2 + count > #ARGV then
    return redis.error_reply('EMQSTATE the arguments of record ' .. records + 1 .. ' do not add up')
  end
  if not above(ms, seq, top_ms, top_seq) then
    if records == 0 then return redis.error_reply('EMQSTALE ' .. last) end
    return redis.error_reply('EMQSTATE record ' .. records + 1 .. ' is not above the one before it')
  end
  top_ms, top_seq = ms, seq
  at, records = at + 3 + count, records + 1
end

at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at + 2])
  redis.call('XADD', KEYS[1], ARGV[at] .. '-' .. ARGV[at + 1], unpack(ARGV, at + 3, at + 2 + count))
  at = at + 3 + count
end
return records
