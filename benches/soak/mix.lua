-- The requests wrk sends: mostly reads, some changes, some that have to be refused.
-- Its arguments are the token and where to write how often each status was answered.
local token, counts = nil, {}
local threads = {}
local number = 0

function setup(thread)
  table.insert(threads, thread)
  thread:set('first', #threads * 1000)
end

local function call(id, name, arguments)
  local body = '{"jsonrpc":"2.0","id":' .. id .. ',"method":"tools/call","params":{"name":"' .. name
    .. '","arguments":' .. arguments .. ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    .. '"io.modelcontextprotocol/clientCapabilities":{},'
    .. '"io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"}}}}'
  return wrk.format('POST', '/mcp', {
    ['Authorization'] = 'Bearer ' .. token,
    ['Content-Type'] = 'application/json',
    ['Accept'] = 'application/json, text/event-stream',
    ['Mcp-Protocol-Version'] = '2026-07-28',
    ['Mcp-Method'] = 'tools/call',
    ['Mcp-Name'] = name,
  }, body)
end

local function get(path)
  return function() return wrk.format('GET', path, { ['Authorization'] = 'Bearer ' .. token }) end
end

local function post(path, body)
  local headers = { ['Authorization'] = 'Bearer ' .. token, ['Content-Type'] = 'application/json' }
  return wrk.format('POST', path, headers, body)
end

local small = get('/file?path=small.txt')
local mix = {
  small, small, small, small, small, small, small, small,
  get('/file?path=large.txt'), get('/file/bytes?path=large.txt'),
  get('/list?path=listed'), get('/list?path=listed&limit=50'),
  get('/glob?pattern=listed/*1*.txt'), get('/stat?path=small.txt'),
  get('/search?query=fox&path=small.txt'), get('/audit?limit=5'),
  -- What has to be refused, each in its own way.
  get('/file?path=nothing.txt'), get('/file?path=../outside'), get('/nowhere'),
  get('/list?path=listed&cursor=nonsense'),
  function() return wrk.format('GET', '/file?path=small.txt') end,
  function() return post('/file/write', '{"path":') end,
  function() return post('/undo', '{"id":"u_nothing"}') end,
  -- What changes something: made by one, taken away by another.
  function()
    local path = 'written/' .. (number % 200) .. '.txt'
    return post('/file/write', '{"path":"' .. path .. '","content":"some text","mode":"create"}')
  end,
  function() return post('/file/delete', '{"path":"written/' .. ((number + 100) % 200) .. '.txt"}') end,
  function() return call(number, 'write_file', '{"filePath":"written/mcp.txt","content":"text ' .. number .. '"}') end,
  function() return call(number, 'read_file', '{"filePath":"small.txt"}') end,
}

function init(arguments)
  token = arguments[1]
  number = first
end

function request()
  number = number + 1
  return mix[number % #mix + 1]()
end

-- Only what is in a thread's globals is seen from `done`.
statuses = ''
function response(status)
  counts[status] = (counts[status] or 0) + 1
  if number % 64 == 0 then
    local words = {}
    for one, count in pairs(counts) do table.insert(words, one .. '=' .. count) end
    statuses = table.concat(words, ' ')
  end
end

function done(summary)
  for _, thread in ipairs(threads) do print('statuses ' .. thread:get('statuses')) end
  local errors = summary.errors
  print('errors connect=' .. errors.connect .. ' read=' .. errors.read
    .. ' write=' .. errors.write .. ' timeout=' .. errors.timeout)
  print('requests ' .. summary.requests)
end
