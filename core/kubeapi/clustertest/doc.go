// Package clustertest is a stand-in API server for tests: one Node and the Events
// about it, over HTTP, in the protocol of the real one. It lists and watches the Node
// (from the beginning or a version, 410 Gone, a time limit), takes Events, gets single
// Pods, gets the Node as a whole, and can be away, forbid, forget its history and cut connections.
//
// It answers nothing else, least of all about all Nodes: a client that asks for them
// fails. Handle adds a handler for other resources, such as one of test/apiserver.
package clustertest
