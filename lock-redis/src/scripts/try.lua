-- Runs commands of the other scripts that may be refused. The script behind this one says which.

local refused, trouble = {}, nil

local function is_of_rights(words)
  return words:find('NOPERM', 1, true) or words:find('ACL failure', 1, true) or words:find('The user executing', 1, true)
end

local function try(command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) == 'table' and answer.err then
    if is_of_rights(answer.err) then refused[#refused + 1] = command else trouble = trouble or answer end
  end
  return answer
end

