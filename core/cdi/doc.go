// Package cdi keeps the CDI spec files on disk: the definitions by which a
// container runtime gives a device to a container.
//
// Kubelet stores the CDI names it was given at an allocation and asks for them
// again whenever a container of the pod restarts, over our restarts and
// upgrades. So a name that a container may hold always means what it meant when
// it was taken: a definition that changes meanwhile gets a name of its own.
//
//	                  held by nobody                  held by a container
//	first seen        plain name                      plain name
//	edits changed     plain name is redefined         a new name, <id>_<hash>; the old one stays
//	device gone       name removed                    name stays
//
// What Prepare returned for one container is in a definition of its own, which only that
// container names; see [HolderName] and [Store.Define].
//
// A definition is in place, fsynced and readable by everybody before [Names]
// gives its name out. Each backend and class has a file of its own; what a spec
// cannot say (which device a derived name, or a holder's own definition, belongs to) is in
// a small file beside it that runtimes do not read, so that a spec
// asks for no newer version of CDI than its edits need. Variables, mounts and hooks that
// all devices of a file have are in the spec's own edits, so that a container with several
// of the devices gets each once.
//
// The package does not know who holds a device (see package usage), nor whether
// it is healthy.
package cdi
