--[[
  update_progress.lua: write a job's progress into its row and publish it, in one step.

  KEYS[1]  row       emq:{q}:job:<JOB id>
  ARGV[1]  channel   emq:{q}:events
  ARGV[2]  job       the branded id of the job
  ARGV[3]  progress  the new value

  RETURNS  how many listened to the event that was published; -1 where the job has no row
  ERRORS   WRONGTYPE   the row holds something else
           NOPERM      the user may not write the row, or may not use the channel
           OOM         the server is out of memory
           In each case, and where there is no row, nothing was changed and nothing was published.
]]
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local before = redis.call('HGET', KEYS[1], 'progress')
redis.call('HSET', KEYS[1], 'progress', ARGV[3])

local event = cjson.encode({ event = 'progress', job = ARGV[2], progress = ARGV[3] })
local listening = redis.pcall('PUBLISH', ARGV[1], event)
if type(listening) == 'table' and listening.err then
  -- Nothing is rolled back by the server, and whether the user may use the channel shows only here.
  if before then
    redis.call('HSET', KEYS[1], 'progress', before)
  else
    redis.call('HDEL', KEYS[1], 'progress')
  end
end
return listening
