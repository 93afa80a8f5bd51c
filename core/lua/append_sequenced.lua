--[[
  append_sequenced.lua: append records to a stream with several writers: all of them, or none.

  KEYS[1]  stream    emq:{q}:stream:<name>
  KEYS[2]  hash      emq:{q}:seq
  ARGV     the records, as `append` of sequencer.lua takes them

  RETURNS  the branded ids of the records, fourteen bytes each, end to end
  ERRORS   EMQAHEAD, EMQSTATE and WRONGTYPE as `append`; nothing was written
]]
local ids, problem = append(KEYS[1], KEYS[2], ARGV)
return ids or problem
