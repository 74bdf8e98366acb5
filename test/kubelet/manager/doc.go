// Command manager is the device half of a real kubelet: the device manager, the DRA
// manager, the topology manager, the plugin watcher and the pod-resources server of
// k8s.io/kubernetes, wired together as kubelet wires them and moved to a directory
// of their own. Who starts it says over standard input what happens on the node
// (package wire).
//
// With -cluster it is an API server instead, for the DRA manager and for drivers: a
// stand-in (package apiserver) that treats slices and classes as that release does.
//
// It has no container runtime and no node status: a pod is what it
// is told to admit, and a container runs when it is asked for the options. Where
// kubelet's own wiring could not be used, the comment says which part of kubelet it
// stands for.
//
// The same code is built with each release of releases/, by build.sh. What differs
// between releases is in files with the release in their name and build
// constraints: kubelet1.26 and so on for the older ones, none for the newest.
package main
