// Package status shows a running agent to people and programs.
//
// [Facts] is a snapshot of what each part of the agent knows. The report, the devices, their
// telemetry and the topologies are computed from it, so this package is downstream of every
// other part and never changes anything in them. They are served by a small HTTP [Server] on a
// unix socket in the run directory, whose [Client] the commands `accelmux status`, `devices`,
// `top` and `topology` use, and by an [Endpoint] over TCP for Prometheus and probes.
//
// Metrics are computed from the report when they are scraped. Only what no report has, such
// as how often a call was answered, is counted, in a [Tally].
package status
