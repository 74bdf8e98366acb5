// Package features says what accelerators a node has, as labels: how many devices
// of which class, model, driver version and so on, for schedulers and people to
// choose nodes by.
//
// A [Finder] makes features of a snapshot. Names begin with the backend's featurePrefix,
// by default its name and .accelmux.io:
//
//	<prefix>/<class>.count                    how many devices: whole ones, and those that
//	                                          listed partitions belong to
//	<prefix>/<class>.partitions               how many partitions; missing if there are none
//	<prefix>/<class>.replicas                 how many containers may share a device; missing if none is shared
//	<prefix>/<class>.<attribute>              the value that all devices of the class have
//	<prefix>/<class>.<attribute>.<value>      where values differ: how many devices have this one
//
// The capacity memory is in GiB, rounded, such as 48G; other capacities are plain numbers.
// Which attributes and capacities become features is the backend's setting
// "features". Features say what is in the node, not what works: health does not
// count, and neither does a backend that restarts, within its holdover. Names and
// values are valid as labels, always the same for the same devices, and bounded;
// what had to be cut or left out for that is a [Problem].
//
// A [Publisher] keeps a feature file of Node Feature Discovery equal to the newest
// features. It leaves the file when it ends, so that an upgrade of the agent changes
// nothing: the features in the file expire.
package features
