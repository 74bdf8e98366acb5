// Package holders knows who holds which device, and which operations of backends are in
// progress on it. A holder is one Allocate call of kubelet's device plugin API: the units of
// one resource that one container got.
//
// Whether a holder may take a device, and whether a Prepare, Release or Reset may begin on
// it, is decided by the [Book] alone, under one lock (operations.go).
//
// Kubelet calls Allocate when it gives devices to a container, and nothing when the
// container is gone. The list of its pods in the pod-resources API shows that:
//
//	Take ───► held, container not known yet
//	listed for a pod ───► held by that container
//	missing in a conclusive list ───► ending
//	missing in a second one, or older than Timing.Grace ───► ended
//
// A device stays held until a list proves otherwise. A list counts only if kubelet has had
// time to learn of its pods (just after its start it lists none), and if it began a while
// after the allocation, or is the second list in a row without a unit that was listed
// before. Ordinary init containers are never listed. So an allocation that was never listed
// stays until kubelet's checkpoint does not have it either, and without the checkpoint much
// longer. Without the API every allocation stays until the node reboots or kubelet
// allocates the unit again.
//
// The agent does not call List right after kubelet's start: List would free the devices of
// pods that kubelet has not loaded yet (kubelet.go).
//
// The book survives a restart of the agent in a small file, and starts empty after a reboot.
// The package does nothing to the devices of a holder that ended; [Book.Ended] sends them.
package holders
