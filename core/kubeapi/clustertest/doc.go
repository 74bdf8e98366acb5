// Package clustertest is a stand-in API server for tests: one Node and the Events
// about it, over HTTP, in the protocol of the real one. It watches the Node
// (from the beginning or a version, 410 Gone, a time limit), gets it, applies labels
// to it (server-side, with owners and conflicts), takes Events, gets single Pods, and can be away,
// forbid, forget its history and cut connections.
//
// It answers nothing else, least of all a list: a client that needs one fails.
package clustertest
