// Package status is how people and programs look into a running agent: a small
// HTTP server on a unix socket in the state directory, the client that the
// commands `accelmux status`, `devices`, `top` and `topology` use, and an [Endpoint]
// over TCP for Prometheus and probes.
//
// The package defines what is shown and carries it; the agent fills it in. It
// never changes anything in the agent. Metrics are made from the report when they
// are asked for; only what no report has, such as how often something was done, is
// counted, in a [Tally].
package status
