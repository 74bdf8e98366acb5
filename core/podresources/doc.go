// Package podresources knows what kubelet says of its pods: by its pod-resources API, which lists the active ones, and by the
// checkpoint of its device manager. It says whether an owner, the units of a container or a claim, was seen or is gone
// ([Presence]), and knows nothing of devices.
//
// Kubelet calls Allocate when it gives devices to a container, and nothing when the container is gone. The list of its pods
// shows that:
//
//	given ───► not listed yet
//	listed for a pod ───► seen, with its containers
//	missing in a conclusive list ───► ending
//	missing in a second one, or older than Timing.Grace ───► gone
//
// A list counts only if kubelet has had time to learn of its pods (just after its start it lists none), and if it began a
// while after the owner did, or is the second list in a row without an owner that was listed before. Ordinary init
// containers are never listed. So an owner that was never listed stays until kubelet's checkpoint does not have it either,
// and without the checkpoint much longer. Without the API every owner stays.
//
// List is not called right after kubelet's start: it would free the devices of pods that kubelet has not loaded yet
// (client.go).
package podresources
