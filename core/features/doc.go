// Package features describes a node's accelerators as labels for node selection: the number of
// devices of each class, their model, driver version and so on.
//
// A [Finder] computes the features of a snapshot. Names begin with the backend's featurePrefix,
// by default its name and .accelmux.io:
//
//	<prefix>/<class>.count                    how many devices: whole ones, and those that
//	                                          listed partitions belong to
//	<prefix>/<class>.partitions               how many partitions; absent without partitions
//	<prefix>/<class>.replicas                 how many containers may share a device; absent if none is shared
//	<prefix>/<class>.<attribute>              the value that all devices of the class have
//	<prefix>/<class>.<attribute>.<value>      if values differ: how many devices have this one
//
// Labels under a vendor's own names, such as nvidia.com/gpu.product, are features, too, if the
// backend reports them and its setting "vendorLabels" has their prefix. Their names and values
// are the backend's.
//
// The capacity memory is in GiB, rounded, such as 48G; other capacities are plain numbers.
// Which attributes and capacities become features is the backend's setting
// "features". Features of devices do not depend on their health, nor on restarts of a backend
// within its holdover. Names and values are valid as labels, deterministic, and bounded;
// a feature that had to be cut or left out is a [Problem].
//
// A [Publisher] writes the newest features to a feature file of Node Feature Discovery. The
// file stays when the agent ends, so that an upgrade does not change labels; its features
// expire.
package features
