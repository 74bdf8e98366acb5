// Package holders knows who holds which device, and which operations of backends are in
// progress on it. A holder is one Allocate call of kubelet's device plugin API: the units of
// one resource that one container got. Or it is what one driver prepared for a claim.
//
// Whether a holder may take a device, and whether a Prepare, Release or Reset may begin on
// it, is decided by the [Book] alone, under one lock (operations.go).
//
// A device stays held until package podresources says that the container is gone, or until the claim
// is ended. Without kubelet's API every allocation of a container stays until the node reboots or kubelet
// allocates the unit again.
//
// The book survives a restart of the agent in a small file, and starts empty after a reboot.
// The package does nothing to the devices of a holder that ended; [Book.Ended] sends them.
package holders
