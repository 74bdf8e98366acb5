// Package wire is what the program test/kubelet/manager and its clients say to each
// other: JSON-RPC over the program's standard input and output (net/rpc/jsonrpc). A
// request is a line such as
//
//	{"id": 1, "method": "Kubelet.Counts", "params": ["example.com/gpu"]}
//
// and its answer {"id": 1, "result": {...}, "error": null}. Requests are served side
// by side: a container's start may take as long as its Prepare does. Start must be
// the first; the program ends when its input does, or on SIGTERM.
//
//	Kubelet.Start           Options                  About
//	Kubelet.Admit           *v1.Pod                  Verdict
//	Kubelet.PrepareClaims   the pod's UID            Nothing
//	Kubelet.UnprepareClaims the pod's UID            Nothing
//	Kubelet.StartContainer  Container                ContainerOptions
//	Kubelet.RemovePod       the pod's UID            Nothing
//	Kubelet.Counts          the resource's name      Counts
//	Kubelet.Healthy         the resource's name      []string, device IDs
//	Kubelet.Resources       Nothing                  map[string]Resource, by name
//	Kubelet.Devices         Container                map[string][]Device, by resource
//	Kubelet.PodHealth       the pod's UID            map[string]string, by device ID
//
// A pod is core/v1's of whichever release: its JSON is the same in all of them.
package wire

import v1 "k8s.io/api/core/v1"

// Service is the first part of the methods' names.
const Service = "Kubelet"

// Nothing is where there is nothing to say.
type Nothing struct{}

// Options say what kind of node the kubelet believes it is on, and what a kubelet
// learns from the API server and the container runtime when it starts.
type Options struct {
	// Dir is kubelet's root directory (--root-dir); it must exist. PluginDir has the sockets of device
	// plugins, which kubelet has in /var/lib/kubelet/device-plugins whatever its root directory is; ""
	// for device-plugins in Dir.
	Dir, PluginDir string
	// NUMANodes is how many NUMA nodes the machine has, 1 to 8.
	NUMANodes int
	// Policy and Scope are the topology manager's, such as none and container.
	Policy, Scope string
	// APIServer is its address, and NodeName the name of the Node there; without them
	// the kubelet has no claims.
	APIServer, NodeName string
	// Pods were admitted by a kubelet before this one.
	Pods []Running
}

// Running is a pod and its containers that were started: their IDs by name.
type Running struct {
	Pod        *v1.Pod
	Containers map[string]string
}

// About is what the program says of itself.
type About struct {
	// Release is that of k8s.io/kubernetes, such as v1.37.1.
	Release string
	// Refused are the pods of Options, by UID, that were not admitted again: kubelet
	// kills such a pod, and they are not on the node any more.
	Refused map[string]Verdict
}

// Verdict is what became of an admission. Without an admission, Reason and Message
// are what would stand in the pod's status.
type Verdict struct {
	Admitted        bool
	Reason, Message string
}

// Container names one container of a pod, by the pod's UID.
type Container struct {
	Pod, Name string
	// ID is the container's own, as the container runtime gives it; only to start it.
	ID string
}

// Counts is what kubelet would write into the node's status for a resource. Known
// is false if kubelet never heard of it, or forgot it.
type Counts struct {
	Known                 bool
	Capacity, Allocatable int64
}

// Resource is what kubelet knows of a resource.
type Resource struct {
	// Healthy and Unhealthy are the IDs of its devices, sorted; kubelet's capacity is
	// the number of both, its allocatable that of the healthy ones.
	Healthy, Unhealthy []string
}

// Device is a device that a container holds, with the NUMA nodes that kubelet has
// on record.
type Device struct {
	ID        string
	NUMANodes []int64
}

// ContainerOptions are the device manager's options for a container
// (devicemanager.DeviceRunContainerOptions), as far as they are looked at, with the CDI
// names of its claims before the device manager's. The names
// are kubelet's, so that its own type becomes this one by way of JSON, in every
// release.
type ContainerOptions struct {
	Envs        []Variable
	Annotations []Variable
	Mounts      []struct {
		ContainerPath, HostPath string
		ReadOnly                bool
	}
	Devices []struct {
		PathOnHost, PathInContainer, Permissions string
	}
	CDIDevices []CDIDevice
}

// CDIDevice names a device by its CDI name.
type CDIDevice struct{ Name string }

// Variable is a variable or an annotation of a container.
type Variable struct{ Name, Value string }
