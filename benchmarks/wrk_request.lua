-- Has wrk send a request as it stands in a file, and print what it saw as one line of JSON.
--
-- Each request gets an id of its own in the place of the 32 characters of `mark`, if they are there.
--
-- wrk -t1 -c64 -d2s -s wrk_request.lua http://127.0.0.1:8501 -- REQUEST_FILE

local mark = "0123456789abcdef0123456789abcdef"
local raw, before, behind
local count = 0

function init(args)
    local file = assert(io.open(args[1], "rb"))
    raw = file:read("*a")
    file:close()
    local first, last = raw:find(mark, 1, true)
    if first then
        before, behind = raw:sub(1, first - 1), raw:sub(last + 1)
        count = os.time() * 1000000 -- no id of an earlier run comes again
    end
end

function request()
    if not before then
        return raw
    end
    count = count + 1
    return before .. string.format("%032x", count) .. behind
end

function done(summary, latency)
    local lost = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
    print(string.format(
        '{"answers": %d, "errors": %d, "lost": %d, "rate": %f, "p50_us": %f, "p99_us": %f}',
        summary.requests, summary.errors.status, lost, summary.requests / summary.duration * 1e6,
        latency:percentile(50), latency:percentile(99)))
end
