// Package config is a node's configuration: its types, strict loading, its
// defaults, its validation, live reload of the file, and what is kept of it over a
// restart.
//
// Loading is strict. Unknown and repeated fields, values of the wrong type,
// impossible values and dangling references are refused, and all of them at
// once: the error is an [Errors], sorted by line, that names file, line and the
// path of the field, and says what would be right.
//
//	node.yaml:12: profiles[0].resources[1].replica: unknown field "replica"; did you mean "replicas"? ...
//
// A configuration that [Parse] or [Load] returned is complete (every default is
// filled in), valid, and never changes, so that no other package has to check a
// field or know a default. [Schema] says the same to editors.
//
// A profile says by its nodeSelector and its priority on which nodes it applies.
// The package does not decide which one does (package profile does, and
// [NodeConfig.Profile] where nobody knows a node's labels), does not start anything, and does not look into a
// backend's [Settings]: it only makes sure that they are one JSON object.
package config
