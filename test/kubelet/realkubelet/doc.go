// Package realkubelet runs the device half of a real kubelet inside the test
// process: the device manager, the topology manager, the plugin watcher and the
// pod-resources server of k8s.io/kubernetes, wired together as kubelet wires
// them and moved to a directory of their own.
//
// It has no container runtime, no API server and no node status: a pod is what
// the test admits, and a container runs when the test asks for its options.
// Where kubelet's own wiring could not be used, the comment says which part of
// kubelet it stands for.
package realkubelet
