// Package features says what accelerators a node has, as labels: how many devices
// of which class, model, driver version and so on, for schedulers and people to
// choose nodes by.
//
// A [Finder] makes features of a snapshot. Names begin with the backend's own
// domain:
//
//	<backend>.accelmux.io/<class>.count                    how many devices: whole ones, and those that
//	                                                       listed partitions belong to
//	<backend>.accelmux.io/<class>.partitions               how many partitions; missing if there are none
//	<backend>.accelmux.io/<class>.replicas                 how many containers may share a device; missing if none is shared
//	<backend>.accelmux.io/<class>.<attribute>              the value that all devices of the class have
//	<backend>.accelmux.io/<class>.<attribute>.<value>      where values differ: how many devices have this one
//
// The capacity memory is in GiB, rounded, such as 48G; other capacities are plain numbers.
// Which attributes and capacities become features is the backend's setting
// "features". Features say what is in the node, not what works: health does not
// count, and neither does a backend that restarts, within its holdover. Names and
// values are valid as labels, always the same for the same devices, and bounded;
// what had to be cut or left out for that is a [Problem].
//
// A [Publisher] keeps one [Target] as the newest features are: a [File] for Node
// Feature Discovery, or the Node's [Labels]. It writes when something is different
// there, and takes nothing back when it ends, so that an upgrade of the agent
// changes nothing: what a file says expires by itself, labels stay.
package features
