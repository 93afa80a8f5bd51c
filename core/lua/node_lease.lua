#!lua flags=allow-oom
--[[
  node_lease.lua: take, keep and give back the right to mint with a node id.

  KEYS[1]  zset    {emq}:nodes          members <node>:<owner>, scores: deadlines in server ms
  KEYS[2]  hash    {emq}:nodes:<owner>  who the owner is, with the lease's time to live
  KEYS[3]  hash    {emq}:nodes:floor    node to the highest ms that any holder may have minted
  ARGV[1]  word    acquire, renew or release
  ARGV[2]  owner   a ULID
  ARGV[3]  node    the one asked for or held; acquire: empty for the lowest that is free
  ARGV[4]  ms      how long the lease holds
  ARGV[5]  ms      acquire, renew: the instant of the holder's next id; release: one that no id of the holder's is after;
                   empty: the holder leaves no floor
  ARGV[6]  ms      acquire: how far a floor may be ahead of the server's clock, or empty
  ARGV[7]  0 or 1  acquire of a given node: 1 registers beside another live owner
  ARGV[8]  host    ARGV[9]  process    ARGV[10]  client name

  RETURNS  held, node, ms from (nothing at or before it may be minted), ms limit (nothing after it; empty where ARGV[5] is),
                             another live member or ''
           taken, member     the node asked for has another live owner
           full, member…     no node is free; the first three members, or none where all floors are too far ahead
           gone              renew: there is no such lease, and none was made
           released
]]
local nodes, own, floors = KEYS[1], KEYS[2], KEYS[3]
local owner, node, ttl, instant = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function whole(number) return string.format('%.0f', number) end
local function floor_of(which) return tonumber(redis.call('HGET', floors, which) or '') or 0 end

-- Another owner of the node whose lease has not run out.
local function other(which)
  local prefix = which .. ':'
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', nodes, '(' .. whole(now), '+inf')) do
    if member:sub(1, #prefix) == prefix and member ~= prefix .. owner then return member end
  end
  return ''
end

-- Writes the lease anew; `from` is where the holder began.
local function hold(which, from)
  -- Whatever key holds something else is found before anything is written.
  redis.call('HEXISTS', own, 'from')
  local limit, floor = '', floor_of(which)
  if instant then
    limit = whole(math.max(instant, from, 0) + ttl)
    if tonumber(limit) < floor then limit = whole(floor) end
    redis.call('HSET', floors, which, limit)
  end
  redis.call('ZADD', nodes, whole(now + ttl), which .. ':' .. owner)
  redis.call('HSET', own, 'host', ARGV[8], 'process', ARGV[9], 'client_name', ARGV[10], 'from', whole(from))
  redis.call('PEXPIRE', own, ttl)
  return { 'held', tonumber(which), whole(from), limit, other(which) }
end

local function own_from(which)
  return tonumber(redis.call('HGET', own, 'from') or '') or floor_of(which)
end

if ARGV[1] == 'renew' then
  if not redis.call('ZSCORE', nodes, node .. ':' .. owner) then return { 'gone' } end
  return hold(node, own_from(node))
end

if ARGV[1] == 'release' then
  if redis.call('ZREM', nodes, node .. ':' .. owner) == 0 then return { 'gone' } end
  redis.call('DEL', own)
  if instant and other(node) == '' then redis.call('HSET', floors, node, whole(instant)) end
  return { 'released' }
end

redis.call('ZREMRANGEBYSCORE', nodes, '-inf', whole(now))
local taken, first = {}, {}
for _, member in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do
  local which, holder = member:match('^(%d+):(.*)$')
  -- The answer to an earlier question was lost.
  if holder == owner and (node == '' or node == which) then return hold(which, own_from(which)) end
  if which then
    taken[which] = member
    if #first < 3 then first[#first + 1] = member end
  end
end

if node ~= '' then
  if not taken[node] then return hold(node, floor_of(node)) end
  if ARGV[7] ~= '1' then return { 'taken', taken[node] } end
  -- The other is likely this process before it was killed: what it may still mint is not waited out.
  return hold(node, 0)
end

-- A node whose floor is far ahead could not be minted with until then.
local highest = ARGV[6] ~= '' and now + tonumber(ARGV[6]) or nil
for candidate = 0, 1022 do
  local which = tostring(candidate)
  if not taken[which] and not (instant and highest and floor_of(which) > highest) then
    return hold(which, floor_of(which))
  end
end
return { 'full', unpack(first) }
