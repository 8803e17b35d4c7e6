module github.com/disco-sim/disco/perf/profile

go 1.26.0

require (
	github.com/disco-sim/disco v0.0.0-00010101000000-000000000000
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
)

replace github.com/disco-sim/disco => ../..
