// Package agent puts the parts together: it is the only package that knows all
// the others, and it holds what belongs to no single one of them.
//
//	configuration ─► supervisor ─► inventory ─► health ─► resource ─► cdi ─► deviceplugin ─► kubelet
//	                                                                      └► status
//
// One goroutine runs that pipeline (reconcile.go), from the newest snapshot,
// whenever something changed; it may skip what it was too slow for. What runs
// beside it: which profile of the configuration applies, by the node's labels
// (choice.go), the change from one to another without a gap (transition.go), what
// backends report (sink.go), kubelet's calls (lifecycle.go), what a container asks of
// its devices (parameters.go), what one container alone gets
// (holders.go), the release of what a holder had (releases.go), resets of faulted devices (resets.go), and what schedulers are told
// of the node (features.go).
//
// An agent can be replaced while it runs, by one on standby (takeover.go).
package agent
