// Package cdi writes the CDI spec files: the definitions by which a container
// runtime gives a device to a container.
//
// Kubelet stores the CDI names that it got at an allocation and uses them
// again whenever a container of the pod restarts, over our restarts and
// upgrades. So a name that a container may hold always means what it meant when
// it was allocated: if the edits of an allocated device change, the device gets
// another name for new containers.
//
//	                  free                            held by a container
//	first seen        plain name                      plain name
//	edits changed     plain name is redefined         a new name, <id>::<hash>; the old one stays
//	device removed    name removed                    name stays
//
// What another process removes is written again, if the configuration and the host's files still
// allow what it gives. Otherwise it is withheld: its name stays reserved, and containers that have it
// cannot restart until it is allowed again; see [Store.Withheld].
//
// The edits that Prepare returned for one container are in a definition that only that
// container names; see [HolderName] and [Store.Define].
//
// A definition is in place and readable by everybody before [Names] has its name. Each
// backend and class has a file of its own. Every name begins with the ID of the device
// that it belongs to, so the files alone tell a later run which definitions must stay.
// Variables, mounts and hooks that all devices of a file have are in the spec's own
// edits, so that a container with several of the devices gets each once.
//
// The files are not synced. A power cut may leave a damaged one, if the directory is not
// in memory: no container outlives that, runtimes refuse the file, and it is written
// again before a new container gets a name in it.
//
// The package does not know which devices are allocated (see package holders), nor
// which are healthy.
package cdi
