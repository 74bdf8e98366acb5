// Package telemetry holds the newest values that backends measure, while they are
// requested.
//
//	idle ── a scrape, a command ──► one stream for each backend
//	  ▲                               │  ▲
//	  │ no request for 5 intervals    ▼  │ backoff with jitter
//	  └──────── and 5 minutes ─────── the stream failed, stopped sending, sent too much
//
// A request is answered from memory and does not wait for hardware, with one exception: the
// request that starts the streams waits for the first samples, for at most a second, so
// that a single request has an answer. A sample is shown for three of its intervals, and
// only while its backend runs.
//
// Backends are not trusted: every metric is checked by the rules of the contract (check.go),
// one that breaks a rule is left out with a problem, and everything is bounded. A name ends
// in _total if and only if it is a counter, so two backends can share a name only with the
// same type. Where there are a counter x_total and a gauge x, the gauge is left out:
// OpenMetrics uses one name for both.
//
// The package stores no history and does not decide who holds a device (Options.Owners).
//
// Each value of a device is one series. Its labels name the container that holds the device
// if there is exactly one; a shared device has no such labels, because one series for each
// holder would count the device several times in every sum.
package telemetry
