// Package agent puts the parts together: it is the only package that knows all
// the others, and it holds what belongs to no single one of them.
//
//	configuration ─► supervisor ─► inventory ─► health ─► resource ─► cdi ─► deviceplugin ─► kubelet
//	                                                                      └► status
//
// One goroutine runs that pipeline (reconcile.go), from the newest snapshot,
// whenever something changed; it may skip what it was too slow for. What runs
// beside it: the choice of a profile by the node's labels (choice.go), what backends report
// (sink.go), kubelet's calls, releases and resets (kubelet.go, package lifecycle).
//
// An agent can be replaced while it runs, by one on standby (takeover.go).
package agent
