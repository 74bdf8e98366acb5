// Package holders knows who holds which device.
//
// Kubelet says when it gives a device to a container (Allocate), and never when
// the container is gone. That is seen only in its pod-resources API, which lists
// the devices of the pods that are active. The [Book] joins the two:
//
//	Allocate ──────────► held, holder not known yet
//	listed for a pod ──► held by that container
//	listed no more ────► ending, and ended if the list counts
//
// A device stays allocated until a list proves otherwise. A list counts only if kubelet has
// had time to learn of its pods (just after its own start it lists none), and if it began a
// while after the allocation, or is the second list in a row without a container that was
// listed before. Ordinary init containers are never listed. So an allocation that was never
// in a list stays until kubelet's checkpoint does not have it either, and without the
// checkpoint much longer. Without the API every allocation stays until the node reboots or
// kubelet allocates the unit again.
//
// A kubelet that has just started is not asked at all: the question itself can make
// it forget what pods hold that it has yet to hear of (kubelet.go).
//
// The book survives our restart in a small file, and starts empty after a reboot.
//
// What one Allocate gave to one container is a holder with an ID of its own. The package
// does nothing to the devices of a holder that ended; [Book.Ended] sends them.
package holders
