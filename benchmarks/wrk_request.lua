-- Has wrk send a request as it stands in a file, and print what it saw as one line of JSON.
--
-- wrk -t1 -c64 -d2s -s wrk_request.lua http://127.0.0.1:8501 -- REQUEST_FILE

local raw

function init(args)
    local file = assert(io.open(args[1], "rb"))
    raw = file:read("*a")
    file:close()
end

function request()
    return raw
end

function done(summary, latency)
    local lost = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
    print(string.format(
        '{"answers": %d, "errors": %d, "lost": %d, "rate": %f, "p50_us": %f, "p99_us": %f}',
        summary.requests, summary.errors.status, lost, summary.requests / summary.duration * 1e6,
        latency:percentile(50), latency:percentile(99)))
end
