--[[
  sequencer.lua: appends to a stream with several writers (docs/protocol.md §4). It stands in front of the scripts that
  append to one.

  DEFINES
    branded(ms, tail)  the branded id of an entry id

    append(stream, sequencer, values)
        appends all records or none; answers their branded ids, end to end, or nil and an error
        stream     the key of the stream
        sequencer  the key of the queue's sequencer, emq:{q}:seq: a hash of the last `ms` and `seq` that it gave
        values     the records, one behind the other, each written as
                     ms        the candidate's entry id, the part before the dash
                     tail      the candidate's entry id, the part behind it
                     branded   the candidate's branded id
                     count     how many values follow for this record
                     ...       its fields as XADD takes them, without `id`
                   Candidates rise. A record that is alone may have none: three empty values.

  ERRORS of `append`; nothing was written
    EMQAHEAD clock <ms> <server ms>      a candidate is more than a minute ahead of the server's clock
    EMQAHEAD stream <ms> <server ms>     the stream's last id is
    EMQAHEAD sequencer <ms> <server ms>  the first id that the sequencer would give is
    EMQSTATE <text>                      the candidates do not rise, a record has more than 7500 values, or the values
                                         do not add up
    WRONGTYPE                            a key holds something else; the sequencer's is read only where it is needed

  Ids are compared as two numbers: `<` on strings follows the server's locale, and a snowflake does not fit a double. A
  foreign id beyond 2^53 is rounded, and still far above all that it is compared with.
]]

-- The low five digits and the high six fit a double, and so does each step to them, since 62^5 * 2^22 is below 2^52.
local function branded(ms, tail)
  local timestamp = ms - 1704067200000
  local rest = timestamp % 916132832
  local middle = rest * 4194304 + tail
  local low = middle % 916132832
  local high = (timestamp - rest) / 916132832 * 4194304 + (middle - low) / 916132832
  local a, b, c, d, e, f, g, h, i, j, k
  k = low % 62
  low = (low - k) / 62
  j = low % 62
  low = (low - j) / 62
  i = low % 62
  low = (low - i) / 62
  h = low % 62
  g = (low - h) / 62
  f = high % 62
  high = (high - f) / 62
  e = high % 62
  high = (high - e) / 62
  d = high % 62
  high = (high - d) / 62
  c = high % 62
  high = (high - c) / 62
  b = high % 62
  a = (high - b) / 62
  -- Digits to `0-9A-Za-z`.
  return string.char(69, 86, 84,
    a + (a < 10 and 48 or a < 36 and 55 or 61), b + (b < 10 and 48 or b < 36 and 55 or 61),
    c + (c < 10 and 48 or c < 36 and 55 or 61), d + (d < 10 and 48 or d < 36 and 55 or 61),
    e + (e < 10 and 48 or e < 36 and 55 or 61), f + (f < 10 and 48 or f < 36 and 55 or 61),
    g + (g < 10 and 48 or g < 36 and 55 or 61), h + (h < 10 and 48 or h < 36 and 55 or 61),
    i + (i < 10 and 48 or i < 36 and 55 or 61), j + (j < 10 and 48 or j < 36 and 55 or 61),
    k + (k < 10 and 48 or k < 36 and 55 or 61))
end

local function append(stream, sequencer, values)
  local try, tonumber, format, find = redis.pcall, tonumber, string.format, string.find
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local limit = now + 60000
  if limit > 3903090455551 then limit = 3903090455551 end -- no id names a later instant

  -- Nothing is rolled back, so all is checked before the first write. `unpack` fails beyond 7900 values or so.
  local size, at, record = #values, 1, 0
  local ms, tail, last                 -- the first record's candidate, and where its fields end
  local newest_ms, newest_tail = 0, -1 -- the candidate of the record before
  repeat
    local this_ms, this_tail, count = tonumber(values[at]), tonumber(values[at + 1]), tonumber(values[at + 3])
    record = record + 1
    if not count or count < 0 or count > 7500 or count % 2 > 0 or at + 3 + count > size
      or not this_ms ~= not this_tail or not this_ms and (record > 1 or at + 3 + count < size) then
      return nil, redis.error_reply('EMQSTATE the values of record ' .. record .. ' do not add up')
    end
    at = at + 4 + count
    if record == 1 then ms, tail, last = this_ms, this_tail, at - 1 end
    if this_ms then
      if this_ms < newest_ms or (this_ms == newest_ms and this_tail <= newest_tail) then
        return nil, redis.error_reply('EMQSTATE the candidate of record ' .. record .. ' is not above the one before')
      end
      newest_ms, newest_tail = this_ms, this_tail
    end
  until at > size
  if newest_ms > limit then return nil, redis.error_reply(format('EMQAHEAD clock %.0f %.0f', newest_ms, now)) end

  local ids, id = {}
  local top_ms, top_tail -- the stream's last id, once it is known
  local given_ms, given  -- the sequencer's last id, once it is known
  local kept_ms          -- the part of it that is on record
  at = 1
  repeat
    id = nil
    if ms and not (top_ms and (ms < top_ms or (ms == top_ms and tail <= top_tail))) then
      local reply = try('XADD', stream, values[at] .. '-' .. values[at + 1], 'id', values[at + 2],
        unpack(values, at + 4, last))
      if not reply.err then
        id, top_ms, top_tail = values[at + 2], ms, tail
      elseif not find(reply.err, 'equal or smaller than the target stream top item', 1, true)
        and not find(reply.err, 'exhausted the last possible ID', 1, true) then
        return nil, reply
      end
    end

    if not id then
      if not given_ms then
        local known = try('HMGET', sequencer, 'ms', 'seq')
        if known.err then return nil, known end
        given_ms, given = tonumber(known[1] or 0), tonumber(known[2] or -1)
        kept_ms = given_ms
      end
      -- The law takes the stream's last id, which is costly to ask for. What is certain is that it is not below a
      -- candidate that was refused; and where the server accepts what follows from that candidate, the same follows
      -- from the last id itself. Without a candidate, the server's clock moves the ids on.
      local low_ms, low_tail = ms or now, tail or -1
      if top_ms and (top_ms > low_ms or (top_ms == low_ms and top_tail > low_tail)) then
        low_ms, low_tail = top_ms, top_tail
      end
      local asked = false
      while not id do
        local next_ms, next = given_ms, given + 1
        if low_ms > given_ms then next_ms, next = low_ms, 0 end
        if next > 4095 or (next_ms == low_ms and 4190208 + next <= low_tail) then next_ms, next = next_ms + 1, 0 end

        -- A batch is held against the clock where it begins, so that it is written whole.
        if next_ms <= limit or top_ms then
          local sequenced = branded(next_ms, 4190208 + next)
          local reply = try('XADD', stream, format('%d-%d', next_ms, 4190208 + next), 'id', sequenced,
            unpack(values, at + 4, last))
          if not reply.err then
            id, top_ms, top_tail, given_ms, given = sequenced, next_ms, 4190208 + next, next_ms, next
          elseif asked or not find(reply.err, 'equal or smaller than the target stream top item', 1, true)
            and not find(reply.err, 'exhausted the last possible ID', 1, true) then
            return nil, reply
          end
        elseif asked then
          return nil, redis.error_reply(format('EMQAHEAD sequencer %.0f %.0f', next_ms, now))
        end

        if not id then
          asked = true
          local info = try('XINFO', 'STREAM', stream)
          if info.err and not find(info.err, 'no such key', 1, true) then return nil, info end
          for i = 1, #info, 2 do
            if info[i] == 'last-generated-id' then
              local last_ms, last_tail = string.match(info[i + 1], '^(%d+)-(%d+)$')
              if tonumber(last_ms) > limit then
                return nil, redis.error_reply('EMQAHEAD stream ' .. last_ms .. format(' %.0f', now))
              end
              last_ms, last_tail = tonumber(last_ms), tonumber(last_tail)
              if last_ms > low_ms or (last_ms == low_ms and last_tail > low_tail) then
                low_ms, low_tail = last_ms, last_tail
              end
            end
          end
        end
      end
    end

    at = last + 1
    if record > 1 then
      ids[#ids + 1] = id
      if at < size then
        ms, tail, last = tonumber(values[at]), tonumber(values[at + 1]), at + 3 + values[at + 3]
      end
    end
  until at > size
  if given_ms ~= kept_ms then
    redis.call('HSET', sequencer, 'ms', format('%d', given_ms), 'seq', format('%d', given))
  elseif given_ms then
    redis.call('HSET', sequencer, 'seq', format('%d', given))
  end
  return record > 1 and table.concat(ids) or id
end
