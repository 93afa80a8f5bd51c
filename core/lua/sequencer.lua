--[[
  sequencer.lua: appends to a stream with several writers (docs/protocol.md §4). It stands in front of the scripts that
  append to one.

  DEFINES
    branded(ms, tail)  the branded id of an entry id

    append(stream, sequencer, asked, question, expiry, sent, values, at)
        appends all records or none; answers their branded ids, end to end, or nil and an error
        stream     the key of the stream
        sequencer  the key of the queue's sequencer, emq:{q}:seq: a hash of the last `ms` and `seq` that it gave
        asked      the key of what was answered, emq:{q}:asked:<ms / 5000> of the first candidate: a hash of answers by their
                   questions
        question   the first candidate and the writer's token, end to end; empty where there is no candidate. A question that
                   is on record gets the answer that it got before, and nothing is written.
        expiry     how long an answer is kept at least, in milliseconds; at most 5 s more
        sent       0  for the first time, with a candidate that is not ahead as far as the writer knows: one record is tried
                      under its candidate before the question is looked up
                   1  for the first time
                   2  again, and first as 0; the answer is put on record whatever ids it has
                   3  again, and first as 1; likewise
        values     the records from `at` on, one behind the other, each written as
                     entry id  the candidate's, of 13 digits, a dash, and the tail
                     branded   the candidate's branded id
                     count     how many values follow for this record
                     ...       its fields as XADD takes them, without `id`
                   Candidates rise. A record that is alone may have none: two empty values.

        A candidate is used unchanged where it is above the stream's last id and at most 5 ms ahead of the server's clock.
        Any other id is the sequencer's, and the question is put on record.

  ERRORS of `append`; nothing was written
    EMQAHEAD clock <ms> <server ms>      a candidate is more than a minute ahead of the server's clock
    EMQAHEAD stream <ms> <server ms>     the stream's last id is
    EMQAHEAD sequencer <ms> <server ms>  the first id that the sequencer would give is
    EMQSTATE <text>                      the candidates do not rise, a record has more than 7500 values, or the values
                                         do not add up
    TRYAGAIN <text>                      the candidate is ahead of the clock, which its writer did not know when it sent it
                                         first: that sending may come yet, and would not look. Once it is not ahead, ask again
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

local function append(stream, sequencer, asked, question, expiry, sent, values, at)
  local try, tonumber, sub, find = redis.pcall, tonumber, string.sub, string.find
  local size, count, entry_id = #values, tonumber(values[at + 2]), values[at]
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000
  local near = now + 5
  local first, record = at, 0
  local ms, tail, last                 -- the first record's candidate, and where its fields end
  local newest_ms, newest_tail = 0, -1 -- the candidate of the record before
  local refused                        -- what the server said to the first candidate

  -- One record, for the first time, whose candidate has its place: the usual case.
  if sent == 0 and count and count <= 7500 and at + 2 + count == size then
    ms, tail = tonumber(sub(entry_id, 1, 13)), tonumber(sub(entry_id, 15))
    if ms and tail and ms <= near and sub(entry_id, 14, 14) == '-' then
      refused = try('XADD', stream, entry_id, 'id', values[at + 1], unpack(values, at + 3, size))
      if not refused.err then return values[at + 1] end
      -- What is wrong with the values, if anything is, is found below.
      if find(refused.err, 'equal or smaller than the target stream top item', 1, true) then
        record, last, newest_ms, at = 1, size, ms, size + 1
      end
    end
  end

  now = math.floor(now)
  local limit = now + 60000
  if limit > 3903090455551 then limit = 3903090455551 end -- no id names a later instant

  -- Nothing is rolled back, so all is checked before the first write. `unpack` fails beyond 7900 values or so.
  while at <= size or record == 0 do
    local this_ms, this_tail
    entry_id, count = values[at], tonumber(values[at + 2])
    record = record + 1
    if count and entry_id ~= '' then
      this_ms, this_tail = tonumber(sub(entry_id, 1, 13)), tonumber(sub(entry_id, 15))
      if not this_tail or sub(entry_id, 14, 14) ~= '-' then this_ms = nil end
    end
    if not count or count < 0 or count > 7500 or count % 2 > 0 or at + 2 + count > size
      or not this_ms and (entry_id ~= '' or record > 1 or at + 2 + count < size) then
      return nil, redis.error_reply('EMQSTATE the values of record ' .. record .. ' do not add up')
    end
    at = at + 3 + count
    if record == 1 then ms, tail, last = this_ms, this_tail, at - 1 end
    if this_ms then
      if this_ms < newest_ms or (this_ms == newest_ms and this_tail <= newest_tail) then
        return nil, redis.error_reply('EMQSTATE the candidate of record ' .. record .. ' is not above the one before')
      end
      newest_ms, newest_tail = this_ms, this_tail
    end
  end
  if newest_ms > limit then
    return nil, redis.error_reply(string.format('EMQAHEAD clock %.0f %.0f', newest_ms, now))
  end

  -- The question may have been answered before, this sending being the late one of two.
  if question ~= '' then
    local answer = try('HGET', asked, question)
    if answer then
      if answer.err then return nil, answer end
      return answer
    end
    -- The first sending may come yet, and would use the candidate without a look once it is not ahead any more.
    if sent == 2 and record == 1 and newest_ms > near then
      return nil, redis.error_reply(string.format(
        'TRYAGAIN the candidate is of the instant %.0f ms, ahead of the clock, %.0f ms', newest_ms, now))
    end
  end

  local ids, id = {}
  local top_ms, top_tail         -- the stream's last id, once it is known
  local given_ms, given, kept_ms -- the sequencer's last id, once it is known, and the part of it that is on record
  local function look_at_sequencer()
    local known = try('HMGET', sequencer, 'ms', 'seq')
    if known.err then return known end
    given_ms, given = tonumber(known[1] or 0), tonumber(known[2] or -1)
    kept_ms = given_ms
    -- A batch is held against the clock where it begins, so that it is written whole.
    if given_ms > limit and record > 1 then
      return redis.error_reply(string.format('EMQAHEAD sequencer %.0f %.0f', given_ms, now))
    end
  end

  -- The last candidate of a batch may be ahead though the first is not.
  if record > 1 and newest_ms > near then
    local problem = look_at_sequencer()
    if problem then return nil, problem end
  end
  at = first
  repeat
    id = nil
    local ahead = not ms or ms > near
    if not ahead and not (top_ms and (ms < top_ms or (ms == top_ms and tail <= top_tail))) then
      local reply = refused or try('XADD', stream, values[at], 'id', values[at + 1], unpack(values, at + 3, last))
      if not reply.err then
        id, top_ms, top_tail = values[at + 1], ms, tail
      elseif not find(reply.err, 'equal or smaller than the target stream top item', 1, true)
        and not find(reply.err, 'exhausted the last possible ID', 1, true) then
        return nil, reply
      end
    end

    if not id then
      if not given_ms then
        local problem = look_at_sequencer()
        if problem then return nil, problem end
      end
      -- The law takes the stream's last id, which is costly to ask for. What is certain is that it is not below a
      -- candidate that was refused; and where the server accepts what follows from that candidate, the same follows
      -- from the last id itself. A candidate that is ahead says nothing; the server's clock moves the ids on instead.
      local low_ms, low_tail = now, -1
      if not ahead then low_ms, low_tail = ms, tail end
      if top_ms and (top_ms > low_ms or (top_ms == low_ms and top_tail > low_tail)) then
        low_ms, low_tail = top_ms, top_tail
      end
      local informed = false
      while not id do
        local next_ms, next = given_ms, given + 1
        if low_ms > given_ms then next_ms, next = low_ms, 0 end
        if next > 4095 or (next_ms == low_ms and 4190208 + next <= low_tail) then next_ms, next = next_ms + 1, 0 end

        if next_ms <= limit or top_ms then
          local sequenced = branded(next_ms, 4190208 + next)
          local reply = try('XADD', stream, string.format('%d-%d', next_ms, 4190208 + next), 'id', sequenced,
            unpack(values, at + 3, last))
          if not reply.err then
            id, top_ms, top_tail, given_ms, given = sequenced, next_ms, 4190208 + next, next_ms, next
          elseif informed or not find(reply.err, 'equal or smaller than the target stream top item', 1, true)
            and not find(reply.err, 'exhausted the last possible ID', 1, true) then
            return nil, reply
          end
        elseif informed then
          return nil, redis.error_reply(string.format('EMQAHEAD sequencer %.0f %.0f', next_ms, now))
        end

        if not id then
          informed = true
          local info = try('XINFO', 'STREAM', stream)
          if info.err and not find(info.err, 'no such key', 1, true) then return nil, info end
          for i = 1, #info, 2 do
            if info[i] == 'last-generated-id' then
              local last_ms, last_tail = string.match(info[i + 1], '^(%d+)-(%d+)$')
              if tonumber(last_ms) > limit then
                return nil, redis.error_reply('EMQAHEAD stream ' .. last_ms .. string.format(' %.0f', now))
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
        ms, tail = tonumber(sub(values[at], 1, 13)), tonumber(sub(values[at], 15))
        last = at + 2 + values[at + 2]
      end
    end
  until at > size
  if record > 1 then id = table.concat(ids) end
  if given_ms ~= kept_ms then
    redis.call('HSET', sequencer, 'ms', string.format('%d', given_ms), 'seq', given)
  elseif given_ms then
    redis.call('HSET', sequencer, 'seq', given)
  end
  if question ~= '' and (given_ms or sent > 1) then
    redis.call('HSET', asked, question, id)
    -- An answer that another writer wants for longer keeps its time.
    if redis.call('PTTL', asked) < tonumber(expiry) then redis.call('PEXPIRE', asked, expiry + 5000) end
  end
  return id
end
