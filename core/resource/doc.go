// Package resource turns devices into the named resources that pods ask for.
//
// A [Mapper] is compiled from a profile once; [Mapper.Map] then turns every
// snapshot of the inventory into a [Table]: the resources in the order of the
// configuration, each with its devices. A device belongs to the first resource that
// selects it, and to no other, whatever its health, so that a fault never moves
// capacity from one name to another.
//
// # Selectors
//
// A selector is a CEL expression with the compiler, the library and the cost
// limits of the device selectors in Kubernetes' dynamic resource allocation
// (https://kubernetes.io/docs/reference/using-api/cel/). It sees one device:
//
//	device.driver                             string: the backend's name in the profile
//	device.attributes["<backend>"].<name>     what the backend reports: string, int, bool, version or a list of one of them
//	device.attributes["<domain>"].<name>      the same, of a name with a domain
//	device.capacity["<backend>"].<name>       what the backend reports, as a quantity
//	device.attributes["accelmux.io"].id       string: the device's ID
//	                                .class           string
//	                                .numaNode        int; missing if unknown or several
//	                                .pciBusID        string; missing if there is none
//	                                .parent          string, the ID of the physical device; missing for a whole one
//	                                .vendor          string, as the backend describes itself
//	                                .backendVersion  version, as the backend describes itself
//	device.attributes["resource.kubernetes.io"].pciBusID, .pcieRoot  strings; missing without a PCI address
//	                                           .numaNode             as above
//
// Slices of dynamic resource allocation have the same attributes, from [CoreAttributes].
//
// For a backend that the profile calls "mock":
//
//	device.attributes["mock"].model == "M1"
//	device.attributes["mock"].model.startsWith("M") && device.attributes["mock"].cores >= 64
//	device.capacity["mock"].memory.compareTo(quantity("40Gi")) >= 0
//	device.attributes["mock"].firmware.isGreaterThan(semver("1.9.0"))
//	device.attributes["accelmux.io"].class == "gpu" && !has(device.attributes["accelmux.io"].parent)
//	device.attributes["accelmux.io"].numaNode == 0
//	device.driver == "mock" || device.attributes["other"].model == "X"
//
// Health is left out on purpose: a fault must not move a device to another resource.
//
// A device without an attribute that the selector asks for is not selected, and
// that is no error: resources of one profile ask for attributes that only some
// devices have. (In DRA it is an error, which fails the allocation.) Every other
// failure, such as comparing a string with a number or exceeding the cost limit,
// leaves the device unselected by this resource and is a [Table] problem.
//
// # Names
//
// A configured name may have placeholders after the slash: nvidia.com/mig-{profile},
// ex.com/{accelmux.io/class}. It is a template then: each device that it selects replaces
// the placeholders by its own values, and there is one resource for each name that results:
//
//	{x}               the attribute x of the device's own backend, of any type but a list
//	{domain/x}        the same, of a name with a domain such as resource.kubernetes.io
//	{accelmux.io/x}   one of the accelmux.io attributes above, which every backend's devices have
//
// A device without one of the attributes, or with an empty value of it, is not
// selected. "+" becomes ".", as in mig-1g.10gb.me of the profile 1g.10gb+me, and
// every other run of characters that Kubernetes does not allow becomes "-".
// Characters that a name may not begin or end with are removed there. A device whose
// values leave an empty name, or one of more than 63 characters, is not selected, and
// is a problem.
//
// One name never means two kinds of devices. Two devices are of different kinds if
// their values differ in any way (1g+me and 1g.me), or if different resources select
// them. The kind that has a name keeps it as long as it has devices, whatever their
// health. Of several new kinds, the one of the first resource gets the name, then one
// whose values are unchanged in the name, then the first in the order of values.
// Devices of the others are left out, and are problems. A name that is written out in
// the profile is never made by a template. An operator who wants both kinds gives one
// of them a resource of its own, before this one.
//
// A resource is in the table from its first device on. It then stays, without devices,
// as long as the agent runs and the configuration has a template that may have made
// its name (Mapper.Inherit). A resource with allocated devices is in the table in any
// case, if a template may have made its name. A template makes at most 256 names while
// the agent runs, the first 64 immediately and then one every 10 s: kubelet never
// removes a name from the Node's status, and a backend may report new values all the
// time. Devices that would make more names are left out, and are problems.
//
// The package assigns devices and does nothing else: replicas, injection and registration
// are those of package deviceplugin, and package topology chooses between devices.
package resource
