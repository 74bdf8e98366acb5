// Package dra serves devices by dynamic resource allocation (resource.k8s.io/v1): a [Driver] for
// each backend publishes its devices as ResourceSlices, and prepares and unprepares claims for
// kubelet.
//
//	round of the pipeline ─Publish─► Driver ──► pool ──► ResourceSlices
//	kubelet ─prepare, unprepare──► Driver ──► lifecycle ──► backend, CDI definitions
//	                                 └──────► record of claims (package holders)
//	claims of the API server, before their pods are bound ──► binder ──► Driver
//	API server, kubelet's pods ──► Reconciler ──► lifecycle, record of claims
//
// The protocol with kubelet is that of k8s.io/dynamic-resource-allocation/kubeletplugin; package
// resourceslice of that module writes the slices. Package holders records what a claim holds, as for
// the device plugin API.
package dra
