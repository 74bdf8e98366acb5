// Package telemetry has the newest values that backends measure, while somebody
// listens.
//
//	nobody listens ── a scrape, a question ──► one stream for each backend
//	      ▲                                      │  ▲
//	      │ nobody asked for 5 intervals,        ▼  │ backoff, jitter
//	      └──────── and for 5 minutes ───────  over: it failed, fell silent, flooded
//
// Who asks gets what is in memory and never waits for hardware, with one exception:
// the question that begins it all waits for the first samples, for a second at
// most, so that one question alone has an answer. A sample that is older than
// three of its intervals is not shown any more, and none of a backend that does
// not run.
//
// Backends are not trusted: every metric is checked by the rules of the contract
// (check.go), what breaks one is left out and told of, and all else is bounded.
// Because a name ends in _total if and only if it is a counter, two backends can
// share a name only with the same type. Where one has a counter x_total, and the
// same or another one a gauge x, the gauge is left out: OpenMetrics takes both for
// one name.
//
// The package does not decide which backends are measured (Apply), nor who holds a
// device (Options.Look), and keeps no history: that is what Prometheus is for.
//
// A device has each value once. Its labels name the container that holds it if
// there is exactly one; a device that several share has none, as one series for
// each holder would count the device more than once in every sum.
package telemetry
