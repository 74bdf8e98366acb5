// Package telemetry has the newest values that backends measure, while they are read.
//
//	idle ── a scrape, a read ──► one stream for each backend
//	  ▲                            │  ▲
//	  │ no read for 5 intervals    ▼  │ backoff with jitter
//	  └──── and for 5 minutes    ended: it failed, sent no sample, or too many
//
// A read returns what is in memory and never waits for hardware, with one exception: the
// read that starts the streams waits up to a second for the first samples, so that a single
// read has a result. Samples older than three of their intervals, and those of backends that
// do not run, are not returned.
//
// Backends are not trusted: every metric is checked by the rules of the contract
// (check.go), one that breaks a rule is left out and reported, and all else is bounded.
// Because a name ends in _total if and only if it is a counter, two backends can share a
// name only with the same type. Where one has a counter x_total, and the same or another one
// a gauge x, the gauge is left out: in OpenMetrics both have one name.
//
// The package keeps no history: that is what Prometheus is for.
//
// A device has each value once. Its labels name the container that has it if there is
// exactly one; a shared device has none, because one series for each container would count
// the device more than once in every sum.
package telemetry
