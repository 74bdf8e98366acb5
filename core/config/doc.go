// Package config is a node's configuration: its types, strict loading, its
// defaults, its validation, live reload of the file, and a copy on disk that survives a
// restart.
//
// Loading is strict. Unknown and repeated fields, values of the wrong type,
// impossible values and dangling references are refused. The error is an [Errors] with
// all of them, sorted by position; each has file, line, column, the path of the field and what would be
// valid.
//
//	node.yaml:12:9: profiles[0].resources[1].replica: unknown field "replica"; did you mean "replicas"? ...
//
// A configuration that [Parse] or [Load] returned is complete (every default is
// filled in), valid, and never changes, so that no other package has to check a
// field or know a default. schema.json is the JSON schema without settings of
// backends, which deployments/schema has for editors; Parse checks more.
//
// A profile's nodeSelector and priority decide on which nodes it applies.
// The package does not choose the profile: package profile does by the node's labels, and
// [NodeConfig.Profile] without them. It does not start anything, and it does not check a
// backend's [Settings] beyond that they are one JSON object.
package config
