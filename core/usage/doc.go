// Package usage knows who holds which device.
//
// Kubelet says when it gives a device to a container (Allocate), and never when
// the container is gone. That is seen only in its pod-resources API, which lists
// the devices of the pods that are active. The [Book] joins the two:
//
//	Allocate ──────────► held, holder not known yet
//	listed for a pod ──► held by that container
//	listed no more ────► ending, and released if the list is one to be believed
//
// In doubt a device is held: a list is believed only if it began a while after
// the allocation, or the list before did not name a container either that was listed
// earlier, and after kubelet has had time to learn of its pods (just after its own
// start it lists none); ordinary init containers are never listed, so an
// allocation that was never seen in a list stays until kubelet's checkpoint does not
// have it either, and much longer without that. Without the API
// every allocation stays held until the node reboots or kubelet gives the unit to
// somebody else.
//
// A kubelet that has just started is not asked at all: the question itself can make
// it forget what pods hold that it has yet to hear of (kubelet.go).
//
// The book survives our restart in a small file, and starts empty after a reboot.
//
// The package does not act on a release; it tells of it.
package usage
