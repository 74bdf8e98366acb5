package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is what the server knows of a resource.
type Resource struct {
	GroupVersion          schema.GroupVersion
	Name, Kind            string
	Namespaced, HasStatus bool
	// Fields are those of an object that field selectors may name, beside its name and namespace.
	// It may be nil.
	Fields func(runtime.Object) fields.Set
	// Prepare is what the real server does before it stores an object: defaults, fields that are
	// dropped, validation. old is nil at a creation. It returns the object to store, and may be nil.
	Prepare func(o, old runtime.Object) (runtime.Object, error)
}

// Nodes are the Nodes. Neither they nor the resources below have a Prepare.
func Nodes() Resource {
	return Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "nodes", Kind: "Node", HasStatus: true}
}

// Pods can be selected by their Node.
func Pods() Resource {
	return Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "pods", Kind: "Pod", Namespaced: true, HasStatus: true, Fields: podFields}
}

// Events are those of core/v1.
func Events() Resource {
	return Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "events", Kind: "Event", Namespaced: true}
}

// Claims are ResourceClaims.
func Claims() Resource {
	return Resource{GroupVersion: resourceapi.SchemeGroupVersion, Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true, HasStatus: true}
}

// Slices are ResourceSlices, which can be selected by their driver and Node.
func Slices() Resource {
	return Resource{GroupVersion: resourceapi.SchemeGroupVersion, Name: "resourceslices", Kind: "ResourceSlice", Fields: sliceFields}
}

// Classes are DeviceClasses.
func Classes() Resource {
	return Resource{GroupVersion: resourceapi.SchemeGroupVersion, Name: "deviceclasses", Kind: "DeviceClass"}
}

func podFields(o runtime.Object) fields.Set {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return fields.Set{}
	}
	return fields.Set{"spec.nodeName": pod.Spec.NodeName}
}

func sliceFields(o runtime.Object) fields.Set {
	slice, ok := o.(*resourceapi.ResourceSlice)
	if !ok {
		return fields.Set{}
	}
	set := fields.Set{resourceapi.ResourceSliceSelectorDriver: slice.Spec.Driver}
	if slice.Spec.NodeName != nil {
		set[resourceapi.ResourceSliceSelectorNodeName] = *slice.Spec.NodeName
	}
	return set
}
