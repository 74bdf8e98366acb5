// Package agent puts the parts together: it is the only package that knows all the others. It
// opens the parts, runs the round and closes the parts, and has no logic of its own.
//
//	node labels, configuration file ─► profile ─► supervisor
//	backend process ─► supervisor ─► inventory ─► health ─► resource ─► cdi ─► deviceplugin ─► kubelet
//	kubelet's calls ─► deviceplugin ─► lifecycle ─► holders, supervisor
//	all of them ─► status, events, features, telemetry
//
// options.go has what a caller gives; agent.go and open.go open the parts, run.go runs and
// closes them; reconcile.go is the round, from the newest snapshot to what kubelet gets: one
// goroutine runs it whenever something changed, and it may skip snapshots; sink.go hands what
// backends report to the inventory; facts.go hands what the parts know to status. An agent can
// be replaced while it runs, by one on standby (takeover.go).
package agent
